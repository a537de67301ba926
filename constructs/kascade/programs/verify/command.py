"""The program's own command line; ``kascade verify`` finds the replicas and shares the rest."""

from __future__ import annotations

import argparse
import math
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .checks import verify
from .client import UnreachableError
from .directory import look_below
from .discover import replicas_of
from .reading import Look
from .report import EXIT_UNUSABLE
from .target import Target
from .verification import FEWEST_REPLICAS, UnusableError, VerifyOptions

EXIT_INTERRUPTED: Final = 130
"""128 and the number of SIGINT, as shells write it."""

_DEFAULTS: Final = VerifyOptions(seed=0)
_SEED_BITS: Final = 31


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program.

    Args:
        argv: Arguments without the program's name; the process's own by default.

    Returns:
        0 when every check passed, 1 when one failed, 2 when the input cannot be used.
    """
    arguments = _parser().parse_args(argv)
    try:
        return show(read_target(arguments), settings(arguments), look=None)
    except UnusableError as error:
        say(str(error))
        return EXIT_UNUSABLE
    except KeyboardInterrupt:
        say("interrupted")
        return EXIT_INTERRUPTED


def show(target: Target, chosen: VerifyOptions, *, look: Look | None) -> int:
    """Verify one engine and print the report.

    Args:
        target: The engine.
        chosen: How to verify.
        look: Lists L2 as a replica sees it; the target's own directory is listed without it.

    Raises:
        UnusableError: The verification cannot begin, or a server went away meanwhile.
    """
    if look is None and target.cache_directory is not None:
        look = look_below(target.cache_directory)
    say(f"{target.engine}: {len(target.replicas)} replicas, seed {chosen.seed}")
    try:
        report = verify(target, chosen, look=look, say=say)
    except UnreachableError as error:
        msg = f"a server went away while it was measured: {error}; verify again when it is back"
        raise UnusableError(msg) from None
    sys.stdout.write(f"\n{report.render()}")
    sys.stdout.flush()
    return report.exit_code


def say(text: str) -> None:
    """Tell a waiting person something."""
    sys.stderr.write(f"verify: {text}\n")
    sys.stderr.flush()


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say how to verify."""
    parser.add_argument(
        "--seed", type=int, help="of the prompts, to send the same ones again; random by default"
    )
    parser.add_argument(
        "--tokens",
        type=_positive,
        metavar="N",
        help=f"length of a prompt (default: {_DEFAULTS.prompt_tokens}, bounded by the model)",
    )
    parser.add_argument(
        "--ttft-ratio",
        type=_ratio,
        metavar="R",
        help="reader's time to the first token over the writer's that fails the check; 0 measures "
        f"without judging (default: {_DEFAULTS.ttft_ratio})",
    )
    parser.add_argument(
        "--request-seconds",
        type=_positive,
        metavar="S",
        default=_DEFAULTS.request_seconds,
        help="deadline of one request (default: %(default)g)",
    )
    parser.add_argument(
        "--store-seconds",
        type=_positive,
        metavar="S",
        default=_DEFAULTS.store_seconds,
        help="deadline of storing one prompt in L2 (default: %(default)g)",
    )


def settings(
    arguments: argparse.Namespace,
    *,
    tokens: int = _DEFAULTS.prompt_tokens,
    ttft_ratio: float | None = _DEFAULTS.ttft_ratio,
    router_policy: str | None = None,
) -> VerifyOptions:
    """Read those arguments.

    Args:
        arguments: Parsed.
        tokens: Length of a prompt where no argument gives it.
        ttft_ratio: The limit where no argument gives it.
        router_policy: Likewise.
    """
    seed = secrets.randbits(_SEED_BITS) if arguments.seed is None else arguments.seed
    if arguments.ttft_ratio is not None:
        ttft_ratio = arguments.ttft_ratio if arguments.ttft_ratio > 0 else None
    return VerifyOptions(
        seed=seed,
        prompt_tokens=arguments.tokens or tokens,
        ttft_ratio=ttft_ratio,
        router_policy=getattr(arguments, "router_policy", None) or router_policy,
        request_seconds=arguments.request_seconds,
        store_seconds=arguments.store_seconds,
    )


def read_target_file(path: Path) -> Target:
    """Read the description of a running engine.

    Raises:
        UnusableError: The file cannot be read, describes none, or fewer than two replicas.
    """
    try:
        target = Target.read(path)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise UnusableError(msg) from None
    except ValueError as error:
        msg = f"{path} cannot be used: {error}"
        raise UnusableError(msg) from None
    if len(target.replicas) < FEWEST_REPLICAS:
        names = ", ".join(replica.name for replica in target.replicas) or "none"
        msg = (
            f"{path} names {len(target.replicas)} replicas ({names}) and a verification needs two, "
            "one that computes and one that reads; add another one to its replicas"
        )
        raise UnusableError(msg)
    return target


def read_target(arguments: argparse.Namespace) -> Target:
    """Find the replicas as the arguments say.

    Raises:
        UnusableError: There are none.
    """
    if arguments.target is not None:
        return read_target_file(arguments.target)
    missing = [
        f"--{name.replace('_', '-')}"
        for name in ("engine", "model", "chunk_size", "engine_port", "lmcache_port")
        if getattr(arguments, name) is None
    ]
    if missing:
        msg = f"--discover needs {', '.join(missing)} as well"
        raise UnusableError(msg)
    try:
        replicas = replicas_of(
            arguments.discover,
            engine_port=arguments.engine_port,
            lmcache_port=arguments.lmcache_port,
        )
    except OSError as error:
        msg = (
            f"{arguments.discover} has no address ({error.strerror or error}): no replica is "
            "ready; wait until the engine's pods are"
        )
        raise UnusableError(msg) from None
    return Target(
        engine=arguments.engine,
        model=arguments.model,
        chunk_size=arguments.chunk_size,
        replicas=replicas,
        router_url=arguments.router_url,
        router_metrics_url=arguments.router_metrics_url,
        tenant=arguments.tenant,
        control_tenant=arguments.control_tenant,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="verify", description="Proof that replicas answer from what another one computed."
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--target", type=Path, metavar="FILE", help="description of the replicas")
    where.add_argument("--discover", metavar="HOST", help="headless Service that lists them")
    parser.add_argument("--engine", help="name of the engine, for the report")
    parser.add_argument("--model", help="what a request calls the model")
    parser.add_argument("--chunk-size", type=_positive, metavar="TOKENS")
    parser.add_argument("--engine-port", type=_positive, metavar="PORT")
    parser.add_argument("--lmcache-port", type=_positive, metavar="PORT")
    parser.add_argument("--router-url", metavar="URL", help="the router's API, without a path")
    parser.add_argument("--router-metrics-url", metavar="URL", help="its metrics, with their path")
    parser.add_argument("--tenant", help="whose requests these are, where tenants are kept apart")
    parser.add_argument("--control-tenant", help="another tenant, which must find nothing of them")
    parser.add_argument("--router-policy", help="the router's own word for its policy")
    add_settings(parser)
    return parser


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        msg = f"{text!r} is not allowed; give a whole number from 1"
        raise argparse.ArgumentTypeError(msg)
    return value


def _ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        msg = f"{text!r} is not allowed; give a number above 0, or 0 to measure without judging"
        raise argparse.ArgumentTypeError(msg)
    return value
