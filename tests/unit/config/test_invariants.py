"""Every error that is rejected at synth, with the sentence a person gets to read."""

import dataclasses
import re
from pathlib import Path

import pytest
import yaml

from kascade import plan_file
from kascade.catalog.images import IMAGES
from kascade.catalog.instances import INSTANCES
from kascade.sizing import advice, draft
from tests.unit.config.builders import base, problems_of, write


def test_pod_slots_count_every_daemon(tmp_path: Path) -> None:
    config = base()
    config["instance_groups"][0].update(instance_type="ml.g6e.2xlarge", count=2)
    config["hyperpod"] = {"tiered_storage_percentage": 20}
    plan = plan_file(write(tmp_path, config))
    (node,) = plan.cluster.groups
    assert (len(node.daemonset_pods) + node.engines_per_node, node.max_pods) == (11, 14)


def test_an_endless_file_is_refused() -> None:
    (problem,) = problems_of(Path("/dev/zero"))
    assert "has more than 1,000,000 bytes" in problem


def test_a_thousand_mistakes_end_quickly(tmp_path: Path) -> None:
    config = base() | {f"k{i}": 1 for i in range(5000)}
    problems = problems_of(write(tmp_path, config))
    assert len(problems) == 201
    assert any("4,800 more errors" in problem for problem in problems)


def test_a_thousand_replicas_too_many_end_quickly(tmp_path: Path) -> None:
    config = base()
    config["models"] = [
        {"name": f"q{i}", "model": "Qwen/Qwen2-7B-Instruct", "replicas": 1000} for i in range(3)
    ]
    problems = problems_of(write(tmp_path, config))
    assert any("need 3,000 GPUs" in problem for problem in problems)


def test_a_duplicate_key_is_named_with_both_lines(tmp_path: Path) -> None:
    text = yaml.safe_dump(base()) + "region: us-east-1\n"
    problems = problems_of(write(tmp_path, text))
    last = len(text.splitlines())
    assert any(
        p.startswith(f"line {last}: region: the field 'region' is duplicated") for p in problems
    )


def test_all_mistakes_are_reported_together_in_file_order(tmp_path: Path) -> None:
    text = """\
name: Bad_Name
region: us-west-2
zones: [us-west-2a, us-west-2q]
colour: blue
instance_groups:
  - {name: gpu, instance_type: ml.g6e.4xlarge, count: "2"}
  - {name: big, instance_type: ml.g6e.12xlarge, count: 1}
models:
  - {name: a, model: Qwen/Qwen2-7B-Instruct, replicas: 1, instance_group: big, tensor_parallel: 3}
  - {name: a, model: Qwen/Qwen2-7B-Instruct, replicas: 1, instance_group: none}
cache: {chunk_size: 100}
hyperpod: {tiered_storage_percentage: 5}
"""
    problems = problems_of(write(tmp_path, text))
    assert [p.split(": ")[1] for p in problems] == [
        "name",
        "zones[1]",
        "colour",
        "instance_groups[0].count",
        "models[0].tensor_parallel",
        "models[1].name",
        "models[1].instance_group",
        "cache.chunk_size",
        "hyperpod.tiered_storage_percentage",
    ]


def test_a_broken_field_brings_no_consequences_into_the_report(tmp_path: Path) -> None:
    config = base()
    config["instance_groups"][0]["instance_type"] = 5
    problems = problems_of(write(tmp_path, config))
    assert len(problems) == 1
    assert "instance_type: must be text" in problems[0]


def test_a_type_not_listed_for_the_region_is_a_warning(tmp_path: Path) -> None:
    config = base()
    config.update(region="eu-west-2", zones=["eu-west-2a", "eu-west-2b"])
    plan = plan_file(write(tmp_path, config))
    assert any("is not listed for eu-west-2" in str(warning) for warning in plan.warnings)


def test_versions_that_never_ran_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an upgrade of the catalog meets before anybody has run the pair."""
    newer = dataclasses.replace(IMAGES["engine"], carries={"vllm": "0.33.0", "lmcache": "0.5.6"})
    monkeypatch.setattr(advice, "IMAGES", {**IMAGES, "engine": newer})
    (problem,) = problems_of(write(tmp_path, base()))
    assert re.search(
        r"images: the catalog's images carry vllm 0\.33\.0, lmcache 0\.5\.6, which were never run "
        r"together \(known to be good: vllm 0\.32\.0, lmcache 0\.5\.6, .*\); name an engine image",
        problem,
    )
    # An image of one's own is one's own business, and said to be.
    own = base() | {"images": {"engine": "example.com/engine:1"}}
    warnings = [str(w) for w in plan_file(write(tmp_path, own)).warnings]
    (warning,) = [w for w in warnings if w.startswith("images.engine")]
    assert "nothing here knows what is in example.com/engine:1" in warning


def test_a_router_of_another_version_counts_only_while_it_is_the_catalogs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = dataclasses.replace(IMAGES["router"], carries={"vllm-router": "9.9.9"})
    monkeypatch.setattr(advice, "IMAGES", {**IMAGES, "router": newer})
    (problem,) = problems_of(write(tmp_path, base()))
    assert "vllm-router 9.9.9" in problem
    plan_file(write(tmp_path, base() | {"images": {"router": "example.com/router:1"}}))


def test_more_pods_than_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No catalogued type is that tight today, so one is made tighter.
    tight = dataclasses.replace(INSTANCES["ml.g6e.4xlarge"], max_pods=8)
    monkeypatch.setattr(draft, "INSTANCES", {**INSTANCES, "ml.g6e.4xlarge": tight})
    (problem,) = problems_of(write(tmp_path, base()))
    assert re.search(
        r"instance_groups\[0\]\.instance_type: .* has 8 pod slots .* 9 daemons and 1 engine want",
        problem,
    )


def test_any_other_model_by_its_config_json(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(
        '{"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 512,'
        ' "intermediate_size": 1536, "num_attention_heads": 8, "num_key_value_heads": 4,'
        ' "head_dim": 64, "vocab_size": 320, "max_position_embeddings": 16384,'
        ' "torch_dtype": "bfloat16", "tie_word_embeddings": false}'
    )
    config = base()
    config["models"][0].update(model="me/tiny", config_json="mine.json")
    plan = plan_file(write(tmp_path, config))
    assert plan.engines[0].figures.kv_per_token.value == 8192
    assert plan.engines[0].max_model_len == 16384


def test_a_model_without_an_organisation_in_mode_operator(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(
        '{"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 512,'
        ' "intermediate_size": 1536, "num_attention_heads": 8, "num_key_value_heads": 4,'
        ' "head_dim": 64, "vocab_size": 320, "max_position_embeddings": 16384,'
        ' "torch_dtype": "bfloat16", "tie_word_embeddings": false}'
    )
    config = base()
    config["models"][0].update(model="tiny", config_json="mine.json", mode="operator", replicas=1)
    (problem,) = problems_of(write(tmp_path, config))
    assert "'tiny' has no organisation" in problem
    assert "or choose mode: deployment" in problem


def test_mistakes_in_a_config_json_are_listed(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"model_type": "llama", "hidden_size": "wide"}')
    config = base()
    config["models"][0].update(model="me/tiny", config_json="mine.json")
    (problem,) = problems_of(write(tmp_path, config))
    assert "num_hidden_layers" in problem
    assert "hidden_size" in problem
