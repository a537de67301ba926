"""The router's arguments against the router's own parser."""

import argparse
from collections.abc import Callable

import pytest
from vllm_router.launch_router import parse_router_args

from kascade import ServingPlan
from kascade.kube.agreement import _DEFAULT_ATTEMPTS, _DEFAULT_FAILURES, _DEFAULT_POLICY
from tests.contract.pods import arguments, containers
from tools.outputs import Outputs

# The container's entry point is the program; its arguments start here.
PROGRAMS = {"vllm-router", "vllm_router.launch_router"}


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse as the program does; a rejection is the parser's SystemExit."""
    parsed: argparse.Namespace = parse_router_args(argv)
    return parsed


def router_argv(words: list[str]) -> list[str]:
    """Return the words after the program's name, or all when the image's entry point is meant."""
    for index, word in enumerate(words):
        if word.rpartition("/")[2] in PROGRAMS:
            return words[index + 1 :]
    return words


def test_the_router_understands_its_arguments(
    synthesized: Callable[[str], Outputs], plan: Callable[[str], ServingPlan], config: str
) -> None:
    objects = [document for _, document in synthesized(config).objects()]
    rendered = dict(containers(objects, "router"))
    wanted = {router.name: router for router in plan(config).routers}
    assert sorted(owner.partition("/")[2] for owner in rendered) == sorted(wanted)
    for owner, container in rendered.items():
        router = wanted[owner.partition("/")[2]]
        parsed = parse(router_argv(arguments(container)))
        assert parsed.policy == router.policy
        assert parsed.port == router.port
        assert parsed.prometheus_port == router.metrics_port
        assert parsed.service_discovery is True
        assert parsed.service_discovery_port == router.engine_port
        assert parsed.service_discovery_namespace == router.namespace
        assert parsed.request_timeout_secs == router.request_timeout_seconds
        # A dead engine must be left out while there is an attempt left.
        assert parsed.cb_failure_threshold < parsed.retry_max_retries


def test_its_own_breaker_opens_after_all_attempts() -> None:
    """Why ours is stated, and what the check of agreement takes for the defaults."""
    parsed = parse(["--policy=cache_aware"])
    assert parsed.retry_max_retries == _DEFAULT_ATTEMPTS
    assert parsed.cb_failure_threshold == _DEFAULT_FAILURES
    assert parse([]).policy == _DEFAULT_POLICY


@pytest.mark.parametrize("wrong", [["--polcy", "cache_aware"], ["--policy", "prefixaware"]])
def test_the_router_refuses_what_it_does_not_know(wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        parse(wrong)
