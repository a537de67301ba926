"""``kascade verify``: from a configuration to the running replicas, and their check of sharing."""

from __future__ import annotations

import argparse
import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from kascade.cli.job import run_in_cluster
from kascade.cli.kubectl import Kubectl
from kascade.errors import KascadeError
from kascade.kube._labels import engine_selector
from kascade.plan import ServingPlan, VerifyPlan
from kascade.planning.planner import plan_file
from kascade.programs.verify.command import (
    EXIT_INTERRUPTED,
    add_settings,
    read_target_file,
    say,
    settings,
    show,
)
from kascade.programs.verify.directory import LISTING, no_directory, read_listing
from kascade.programs.verify.facts import Facts
from kascade.programs.verify.reading import Listing, Look
from kascade.programs.verify.target import Replica, Target
from kascade.programs.verify.verification import UnusableError
from kascade.sizing.verification import FEWEST_REPLICAS
from kascade.units import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "config", type=Path, nargs="?", help="the configuration file that is deployed"
    )
    parser.add_argument("--model", help="verify this model only; all of them by default")
    parser.add_argument("--context", help="context of the kubeconfig (default: the current one)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--in-cluster",
        action="store_true",
        help="run as a Job inside the cluster, and follow it",
    )
    where.add_argument(
        "--target",
        type=Path,
        metavar="FILE",
        help="use the running servers that this file describes, without kubectl",
    )
    add_settings(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb.

    Returns:
        0 when every check passed, 1 when one failed, 2 when the input cannot be used.

    Raises:
        KascadeError: The input cannot be used.
    """
    # A shell, a CI runner or a terminal that goes away ends the children too.
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(arguments)
    except UnusableError as error:
        raise KascadeError(str(error)) from None
    except KeyboardInterrupt:
        say("interrupted; what was started has been ended")
        return EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(arguments: argparse.Namespace) -> int:
    if arguments.target is not None:
        return _run_target(arguments)
    if arguments.config is None:
        msg = "name the configuration that is deployed, or running servers with --target FILE"
        raise KascadeError(msg)
    plan = plan_file(arguments.config)
    codes = []
    for verify in choose(plan, arguments.model):
        kubectl = Kubectl(namespace=verify.namespace, context=arguments.context)
        if arguments.in_cluster:
            codes.append(run_in_cluster(kubectl, verify, arguments, say=say))
        else:
            codes.append(_run_from_here(kubectl, verify, arguments))
    return max(codes)


def _run_target(arguments: argparse.Namespace) -> int:
    target = read_target_file(arguments.target)
    if arguments.model not in {None, target.engine, target.model}:
        msg = f"{arguments.target} describes {target.engine}, not {arguments.model}"
        raise KascadeError(msg)
    if arguments.config is None:
        return show(target, settings(arguments), look=None)
    plans = [v for v in plan_file(arguments.config).verifications if v.engine == target.engine]
    if not plans:
        msg = f"{arguments.config} has no model {target.engine} with an L2"
        raise KascadeError(msg)
    return show(target, settings(arguments, **_planned(plans[0])), look=None)


def _planned(verify: VerifyPlan) -> dict[str, Any]:
    return {
        "tokens": verify.prompt_tokens,
        "ttft_ratio": verify.ttft_ratio,
        "router_policy": verify.router_policy,
    }


def choose(plan: ServingPlan, model: str | None) -> tuple[VerifyPlan, ...]:
    """Choose what to verify.

    Args:
        plan: The whole plan.
        model: Name of one model, or None for all that have something to prove.

    Raises:
        KascadeError: There is no such model, or nothing to prove about it.
    """
    names = [engine.name for engine in plan.engines]
    if model is not None and model not in names:
        msg = f"no model is called {model!r}; the configuration has {', '.join(names)}"
        raise KascadeError(msg)
    chosen = tuple(
        verify
        for verify in plan.verifications
        if model in {None, verify.engine} and verify.replicas >= FEWEST_REPLICAS
    )
    if chosen:
        return chosen
    reasons = [
        f"{engine.name} has no L2 (cache.l2), so its replicas share nothing"
        if engine.lmcache.l2 is None
        else f"{engine.name} has {engine.replicas} replica and a verification needs two; raise its "
        "replicas and deploy"
        for engine in plan.engines
        if model in {None, engine.name}
    ]
    raise KascadeError("; ".join(reasons))


def _run_from_here(kubectl: Kubectl, verify: VerifyPlan, arguments: argparse.Namespace) -> int:
    pods = ready_pods(kubectl, verify)
    with contextlib.ExitStack() as forwards:
        replicas = tuple(forwards.enter_context(_replica(kubectl, verify, pod)) for pod in pods)
        router_url = router_metrics_url = None
        if verify.router is None or verify.router_port is None:
            say(
                f"{verify.engine} is in mode operator: its router belongs to HyperPod's operator "
                "and is not looked at"
            )
        else:
            metrics = verify.router_metrics_port
            ports = [verify.router_port, *([] if metrics is None else [metrics])]
            router = forwards.enter_context(kubectl.forward(f"service/{verify.router}", ports))
            router_url = f"http://127.0.0.1:{router[verify.router_port]}"
            if metrics is not None:
                router_metrics_url = f"http://127.0.0.1:{router[metrics]}/metrics"
        target = Target(
            engine=verify.engine,
            model=verify.model,
            chunk_size=verify.chunk_size,
            replicas=replicas,
            tenant=verify.tenant,
            control_tenant=verify.control_tenant,
            router_url=router_url,
            router_metrics_url=router_metrics_url,
        )
        if verify.ttft_ratio is None and arguments.ttft_ratio is None:
            say(f"the time to the first token is not judged: {verify.ttft_reason}")
        return show(target, settings(arguments, **_planned(verify)), look=_look(kubectl))


def ready_pods(kubectl: Kubectl, verify: VerifyPlan) -> list[str]:
    """Name the engine's ready pods, sorted.

    Raises:
        KascadeError: There are fewer than two.
    """
    selecting = ",".join(f"{key}={value}" for key, value in engine_selector(verify.engine).items())
    found = kubectl.items("get", "pods", f"--selector={selecting}")
    ready = sorted(pod["metadata"]["name"] for pod in found if _ready(pod))
    if len(ready) < FEWEST_REPLICAS:
        others = ", ".join(
            f"{pod['metadata']['name']} is {pod.get('status', {}).get('phase', 'unknown')}"
            for pod in found
            if pod["metadata"]["name"] not in ready
        )
        msg = (
            f"{verify.engine} has {counted(len(ready), 'ready replica')} of {verify.replicas} in "
            f"namespace {verify.namespace} and a verification needs two"
            + (f" ({others})" if others else "")
            + "; deploy the configuration, or wait until they are ready"
        )
        raise KascadeError(msg)
    if len(ready) < verify.replicas:
        say(f"{len(ready)} of {counted(verify.replicas, 'replica')} of {verify.engine} are ready")
    return ready


def _ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return "deletionTimestamp" not in pod["metadata"] and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


@contextlib.contextmanager
def _replica(kubectl: Kubectl, verify: VerifyPlan, pod: str) -> Iterator[Replica]:
    with kubectl.forward(f"pod/{pod}", [verify.engine_port, verify.lmcache_port]) as local:
        yield Replica(
            name=pod,
            engine_url=f"http://127.0.0.1:{local[verify.engine_port]}",
            lmcache_url=f"http://127.0.0.1:{local[verify.lmcache_port]}",
        )


def _look(kubectl: Kubectl) -> Look:
    """Return a look into the directory from inside each replica's own container."""

    def look(facts: Facts) -> Listing | str:
        if reason := no_directory(facts):
            return reason
        path = facts.cache.base_path if facts.cache else ""
        program = ("python3", "-c", LISTING, path)
        try:
            text = kubectl.run("exec", facts.name, "--container=lmcache", "--", *program)
            return read_listing(text, f"{path} in {facts.name}")
        except (KascadeError, ValueError) as error:
            return f"the directory of L2 cannot be listed in {facts.name}: {error}"

    return look
