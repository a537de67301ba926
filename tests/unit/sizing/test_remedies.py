"""Advice that names a value: the value is written into the file, and the problem is gone."""

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import InvalidConfigError, ServingConfig, plan_file
from kascade.errors import Problem, Remedy
from kascade.sizing.remedies import advised, setting
from tests.unit.config.builders import base, write
from tests.unit.rules.rows.files import MISTAKES

ADVICE = re.compile(r"\. (?=(?:Set|Leave) [\w.\[\]]+ (?:to|out))")
CHANGE = re.compile(r"(?:set|leave) ([\w.\[\]]+) (?:to (\S+)|out)$", re.IGNORECASE)


def said_of(config: dict[str, Any], folder: Path) -> list[Problem]:
    """Problems and warnings of a file."""
    try:
        return list(plan_file(write(folder, config)).warnings)
    except InvalidConfigError as error:
        return list(error.problems)


def cured(config: dict[str, Any], advice: str) -> Iterator[dict[str, Any]]:
    """Yield the file with each alternative of a piece of advice written into it."""
    for alternative in advice.split(", or "):
        changed = copy.deepcopy(config)
        for words in alternative.split(" and "):
            found = CHANGE.search(words)
            assert found, words
            steps = [int(s) if s.isdigit() else s for s in re.findall(r"\w+", found[1])]
            node: Any = changed
            for step in steps[:-1]:
                node = node[step] if isinstance(node, list) else node.setdefault(step, {})
            node[steps[-1]] = yaml.safe_load(found[2]) if found[2] else None
        yield changed


def head(problem: Problem) -> tuple[object, str]:
    """What stays the same of a problem when its numbers change."""
    return problem.path, re.sub(r"[\d.,]+", "#", ADVICE.split(problem.message)[0])[:60]


CASES: dict[str, dict[str, Any]] = {}
for _name, (_edit, *_) in MISTAKES.items():
    _config = base()
    _edit(_config)
    CASES[_name] = _config
CASES |= {
    "L2 that never pays": base()
    | {
        "instance_groups": [{"name": "gpu", "instance_type": "ml.p5.4xlarge", "count": 2}],
        "models": [{"name": "q", "model": "Qwen/Qwen3-30B-A3B", "replicas": 2}],
    },
    "chunk larger than a small L1": base()
    | {"cache": {"chunk_size": 32_768, "l1": {"capacity_gib": 1}, "l2": {"kind": "none"}}},
    "one replica that fills its group": base()
    | {"instance_groups": [{"name": "gpu", "instance_type": "ml.g6e.4xlarge", "count": 1}]}
    | {"models": [{"name": "qwen", "model": "Qwen/Qwen2-7B-Instruct", "replicas": 1}]},
    "two zones": base(),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_what_is_advised_cures(case: str, tmp_path: Path) -> None:
    """Every sentence of the case, whether it rejects or warns."""
    config = CASES[case]
    for problem in said_of(config, tmp_path):
        _, *advice = ADVICE.split(problem.message)
        for words in advice:
            for changed in cured(config, words):
                left = {head(p) for p in said_of(changed, tmp_path)}
                assert head(problem) not in left, (words, sorted(map(str, left)))


def test_most_kinds_of_advice_are_among_the_cases(tmp_path: Path) -> None:
    """So that the test above has something to try."""
    told = [
        problem.message
        for config in CASES.values()
        for problem in said_of(config, tmp_path)
        if ADVICE.search(problem.message)
    ]
    fields = {CHANGE.search(a)[1] for m in told for a in ADVICE.split(m)[1].split(", or ")}  # type: ignore[index]
    assert {re.sub(r"\[\d\]", "", f) for f in fields} >= {
        "cache.l1.capacity_gib",
        "cache.chunk_size",
        "instance_groups.count",
        "instance_groups.instance_type",
        "kubernetes.system_group.count",
        "models.kv_cache_dtype",
        "models.max_model_len",
        "models.replicas",
        "models.tensor_parallel",
    }


def test_what_does_not_cure_is_not_advised() -> None:
    useless = Remedy(words="set x to 1", change=lambda config: config)
    problem = Problem(path=("x",), message="it is wrong", remedies=((useless,),), code="x")
    config = plan_input()
    (told,) = advised([problem], config=config, before=[problem], plan=lambda _: ([problem], []))
    assert told.message == "it is wrong"


def test_what_brings_another_problem_is_not_advised() -> None:
    other = Problem(path=("y",), message="another")
    problem = Problem(
        path=("x",), message="it is wrong", remedies=((setting(("name",), "b"),),), code="x"
    )
    config = plan_input()
    (told,) = advised([problem], config=config, before=[problem], plan=lambda _: ([other], []))
    assert told.message == "it is wrong"
    (told,) = advised([problem], config=config, before=[problem], plan=lambda _: ([], []))
    assert told.message == "it is wrong. Set name to b"


def test_a_value_that_the_field_refuses_is_not_advised() -> None:
    remedy = setting(("models", 0, "tensor_parallel"), 64)
    problem = Problem(path=("x",), message="it is wrong", remedies=((remedy,),), code="x")
    (told,) = advised([problem], config=plan_input(), before=[problem], plan=lambda _: ([], []))
    assert told.message == "it is wrong"


def plan_input() -> ServingConfig:
    return ServingConfig.model_validate(yaml.safe_load(yaml.safe_dump(base())))
