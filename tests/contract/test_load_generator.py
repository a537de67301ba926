"""The real load generator against played replicas: its flags, its moments, its records."""

from pathlib import Path
from typing import Any

import pytest

from kascade.bench.load import OPENER, Generator, Request
from tests.unit.bench.fake_system import fake_system
from tools.bench_env import load_generator

pytestmark = pytest.mark.contract

PROMPT = "a prompt of about sixteen blocks " * 60


def payload(prompt: str) -> dict[str, Any]:
    return {
        "model": "tiny",
        "prompt": prompt,
        "max_tokens": 4,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def planned(session: str, at: float | None, pause: float | None, prompt: str) -> Request:
    return Request(session=session, at_seconds=at, pause_seconds=pause, payload=payload(prompt))


def test_aiperf_sends_finished_bodies_at_their_moments_and_records_each(tmp_path: Path) -> None:
    """One run of about ten seconds: moments, sessions, two addresses, token counts, failures."""
    requests = [
        planned(OPENER, 0.0, None, "hello"),
        planned("a", 1.0, None, PROMPT),
        planned("b", 1.4, None, PROMPT + "b"),
        planned("talk", 1.2, None, PROMPT + "1"),
        planned("talk", None, 0.3, PROMPT + "1 and 2"),
        planned("late", 3.0, None, "fails"),
    ]
    told: list[str] = []
    with fake_system() as (target, replicas):
        replicas[0].fail_from = replicas[1].fail_from = 3
        generator = Generator(
            program=load_generator(),
            model="tiny",
            request_timeout_seconds=20,
            scratch=tmp_path,
            tenant="alice",
        )
        urls = [replica.engine_url for replica in target.replicas]
        samples = generator.send("load", urls, requests, told.append)
        seen = sorted(replicas[0].seen + replicas[1].seen)
    assert [(s.session, s.turn) for s in samples] == [
        (OPENER, 0),
        ("a", 0),
        ("b", 0),
        ("talk", 0),
        ("talk", 1),
        ("late", 0),
    ]
    assert seen == sorted(str(one.payload["prompt"]) for one in requests[:-1])
    assert [replica.tenants for replica in replicas] == [{"alice"}, {"alice"}]
    assert replicas[0].seen
    assert replicas[1].seen
    _, a, b, first, second, late = samples
    # Never early; late as far as a busy machine is.
    assert 0.39 < b.start_seconds - a.start_seconds < 1.5
    after = first.start_seconds + (first.e2e_seconds or 0.0)
    assert 0.29 < second.start_seconds - after < 1.5
    for sample in (a, b, first, second):
        assert sample.error is None
        assert sample.ttft_seconds is not None
        assert sample.itl_seconds is not None
        assert sample.e2e_seconds is not None
        assert 0.003 < sample.ttft_seconds < sample.e2e_seconds
        assert 0.001 < sample.itl_seconds < 0.1
        assert sample.output_tokens == 4
    assert a.input_tokens == len(PROMPT)
    assert late.error is not None
    assert "made to fail" in late.error
    assert late.ttft_seconds is None
