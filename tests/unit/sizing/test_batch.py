"""Batch sizes follow from the GPU, with their reason and their cost."""

from pathlib import Path

import pytest

from kascade import plan_file
from kascade.cli.plan_view import show_plan
from tests.unit.config.builders import base, write


@pytest.mark.parametrize(
    ("instance", "tokens", "seqs", "why"),
    [
        ("ml.g6e.4xlarge", 2048, 256, r"below 70 GiB (44.7)"),
        ("ml.p5.4xlarge", 8192, 1024, "70 GiB or more (80.0)"),
        ("ml.p4de.24xlarge", 2048, 256, "an A100"),
    ],
)
def test_defaults_are_vllms_own(
    tmp_path: Path, instance: str, tokens: int, seqs: int, why: str
) -> None:
    given = base()
    given["instance_groups"][0]["instance_type"] = instance
    (engine,) = plan_file(write(tmp_path, given)).engines
    assert (engine.max_batched_tokens, engine.max_num_seqs) == (tokens, seqs)
    assert why in engine.figures.batched_tokens.reason
    assert why in engine.figures.num_seqs.reason


@pytest.mark.parametrize(
    ("asked", "tokens", "seqs"),
    [
        ({"max_num_seqs": 4096}, 4096, 4096),
        ({"max_num_seqs": 4}, 2048, 4),
        ({"max_batched_tokens": 8192}, 8192, 256),
    ],
)
def test_a_default_gives_way_to_what_was_asked(
    tmp_path: Path, asked: dict[str, int], tokens: int, seqs: int
) -> None:
    given = base()
    given["models"][0] |= asked
    plan = plan_file(write(tmp_path, given))
    (engine,) = plan.engines
    assert (engine.max_batched_tokens, engine.max_num_seqs) == (tokens, seqs)
    # Whatever the batch, a router lets every engine have a full one.
    assert plan.routers[0].max_concurrent_requests > engine.replicas * seqs


def test_the_plan_says_how_long_decoding_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = base()
    given["models"][0]["max_batched_tokens"] = 8192
    plan = plan_file(write(tmp_path, given))
    figures = plan.engines[0].figures
    assert figures.full_pass.value == pytest.approx(8192 / figures.prefill_rate.value, abs=0.001)
    assert figures.full_pass.value == pytest.approx(0.69, abs=0.005)
    show_plan(plan, source="x")
    assert "0.69 s how long decoding waits" in capsys.readouterr().out
