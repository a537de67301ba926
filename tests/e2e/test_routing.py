"""The router sends a prefix where it is: shown on the replica that ties do not go to."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kascade.programs.verify.target import Replica
from tests.e2e.replicas import container, counter, healthy_engines, prompt
from tests.e2e.routed import FORMS, decisions, home_of, post
from tools.local.system import LocalSystem

Measure = Callable[[str, str], None]

EACH = 4
TOKENS = 600


def test_prefixes_go_where_they_are(system: LocalSystem, measured: Measure) -> None:
    """Those of the first replica prove nothing: an idle router goes there whatever it knows."""
    first = home_of(system, FORMS["string"], prompt("where do ties go to?", TOKENS))
    (second,) = (one for one in system.target.replicas if one.name != first.name)
    away = {
        (name, number): prompt(f"planted on the second {name} {number}", TOKENS)
        for name in FORMS
        for number in range(EACH)
    }
    near = {
        (name, number): prompt(f"planted on the first {name} {number}", TOKENS)
        for name in FORMS
        for number in range(EACH)
    }
    with frozen(system, first):
        begun = requests(second)
        for (name, _), text in away.items():
            post(system, system.target.router_url or "", FORMS[name], text)
        system.wait_for(
            lambda: requests(second) - begun == len(away), "the second has answered", seconds=10
        )
    unknown = decisions(system, "missing_tokens")
    homes = {key: home_of(system, FORMS[key[0]], text).name for key, text in near.items()}
    assert set(homes.values()) == {first.name}
    found = {
        name: sum(
            home_of(system, FORMS[name], f"{away[name, number]} and more").name == second.name
            for number in range(EACH)
        )
        for name in FORMS
    }
    stayed = sum(
        home_of(system, FORMS[key[0]], f"{text} and more").name == first.name
        for key, text in near.items()
    )
    measured(
        "prefixes of the second replica that went back to it, both idle",
        ", ".join(f"{name} {count} of {EACH}" for name, count in found.items()),
    )
    assert found == dict.fromkeys(FORMS, EACH)
    assert stayed == len(near)
    assert decisions(system, "missing_tokens") == unknown


@contextmanager
def frozen(system: LocalSystem, replica: Replica) -> Iterator[None]:
    """Stop a replica until the router leaves it out, and less than its liveness probe allows."""
    engine = container(system, replica, "vllm")
    engine.signal_all(signal.SIGSTOP)
    try:
        system.wait_for(lambda: healthy_engines(system) == 1, "it is left out", seconds=25)
        yield
    finally:
        engine.signal_all(signal.SIGCONT)
    assert engine.restarts == 0
    system.wait_for(lambda: healthy_engines(system) == 2, "it is back", seconds=30)
    system.wait_until_ready()


def requests(replica: Replica) -> float:
    return counter(replica.engine_url, "vllm:request_success_total")
