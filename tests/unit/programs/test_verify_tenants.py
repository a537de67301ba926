"""The verification of an engine that keeps tenants apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kascade.programs.verify.checks import verify
from kascade.programs.verify.command import _parser, read_target
from kascade.programs.verify.report import FAILED, Report
from kascade.programs.verify.target import Target
from kascade.programs.verify.verification import UnusableError, VerifyOptions
from tests.unit.programs.fakes import FakeSystem

Start = Callable[..., FakeSystem]

KNOWN = frozenset({"alice", "kascade-verifier", "kascade-control"})


def apart(system: FakeSystem, known: frozenset[str] | None = KNOWN) -> FakeSystem:
    for replica in system.replicas:
        replica.known = known
    return system


def run(system: FakeSystem, **changes: str | None) -> Report:
    asked: dict[str, str | None] = {
        "tenant": "kascade-verifier",
        "control_tenant": "kascade-control",
    }
    return verify(
        replace(system.target, **(asked | changes)),  # type: ignore[arg-type]
        VerifyOptions(seed=1, prompt_tokens=2000, ttft_ratio=None, store_seconds=0.3),
        look=None,
        say=lambda _: None,
    )


def failed(report: Report) -> list[str]:
    return [check.name for check in report.checks if check.verdict == FAILED]


def test_an_engine_that_keeps_tenants_apart_passes(system: Start) -> None:
    report = run(apart(system()))
    assert failed(report) == []
    names = [check.name for check in report.checks]
    assert names[-4:] == [
        "pod-a: a request of no tenant",
        "pod-b: a request of no tenant",
        "pod-a > pod-a: another tenant",
        "pod-a > pod-b: another tenant",
    ]


def test_where_all_share_nothing_of_it_is_asked(system: Start) -> None:
    report = run(system(), tenant=None, control_tenant=None)
    assert failed(report) == []
    assert [check.name for check in report.checks if "tenant" in check.name] == []


def test_an_engine_without_the_middleware_is_found_out(system: Start) -> None:
    """It answers nobody's requests, and finds for one tenant what another one stored."""
    report = run(apart(system(), known=None))
    assert failed(report) == [
        "pod-a: a request of no tenant",
        "pod-b: a request of no tenant",
        "pod-a > pod-a: another tenant",
        "pod-a > pod-b: another tenant",
    ]


def test_one_replica_without_it_is_found_out(system: Start) -> None:
    running = system()
    running.replicas[0].known = KNOWN
    assert "pod-b: a request of no tenant" in failed(run(running))


def test_a_cache_that_ignores_salts_is_found_out(system: Start) -> None:
    running = apart(system())
    for replica in running.replicas:
        replica.leaky = True
    report = run(running)
    assert failed(report) == ["pod-a > pod-a: another tenant", "pod-a > pod-b: another tenant"]
    assert "tokens from a cache" in [check.measured for check in report.checks][-1]


def test_an_engine_that_does_not_know_the_verification_says_so(system: Start) -> None:
    with pytest.raises(UnusableError, match="answered 403"):
        run(apart(system(), known=frozenset({"alice"})))


def test_the_target_says_who_asks(system: Start) -> None:
    target = replace(system().target, tenant="a", control_tenant="b")
    assert Target.from_json(target.to_json()) == target
    with pytest.raises(ValueError, match="tenant is 5 and has to be a text"):
        Target.from_json(target.to_json().replace('"a"', "5"))


def test_the_arguments_say_who_asks() -> None:
    arguments = _parser().parse_args(
        [
            "--discover=127.0.0.1",
            "--engine=tiny",
            "--model=model",
            "--chunk-size=256",
            "--engine-port=1",
            "--lmcache-port=2",
            "--tenant=a",
            "--control-tenant=b",
        ]
    )
    target = read_target(arguments)
    assert (target.tenant, target.control_tenant) == ("a", "b")
