"""What a person asked for, checked: all errors at once, each a sentence."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from kascade.bench import workloads
from kascade.bench.load import VERSION
from kascade.bench.measures import Objective
from kascade.bench.tiers import PHASES
from kascade.bench.trace import Row, read_trace
from kascade.errors import KascadeError
from kascade.plan import EnginePlan, ServingPlan
from kascade.planning.planner import plan_file
from kascade.programs.verify.target import Target

LINK: Final = Path(".venv-bench", "bin", "aiperf")
"""Where `make bench-env` leaves the load generator, from the checkout's folder."""

_Made = TypeVar("_Made")
_SALT: Final = re.compile(r"[A-Za-z0-9._-]{1,32}")


class InvalidBenchError(KascadeError):
    """BenchSettings that cannot be used, with every error in them."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        count = len(problems)
        head = f"kascade bench: {count} problem{'s' if count != 1 else ''}, nothing was measured"
        super().__init__("\n".join([head, *(f"  {problem}" for problem in problems)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """The command line as it was given.

    Attributes:
        tiers: Which tier phases to run; empty for none.
        tier_prompts: Prompts of each tier phase.
        load: Whether to run the workload itself.
        generator: aiperf, or None to look for it.
        fields: A JSON object of further fields for every request.
    """

    config: Path
    target: Path
    workload: str
    out: Path
    trace: Path | None
    shape: workloads.Shape
    trace_speed: float
    max_input_tokens: int | None
    max_output_tokens: int | None
    tiers: tuple[str, ...]
    tier_prompts: int
    load: bool
    warmup_requests: int
    objective: Objective
    request_timeout_seconds: float
    salt: str
    measured_on: str
    planned_hardware: bool
    generator: Path | None
    fields: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSettings:
    """Options that can be fulfilled.

    Attributes:
        engine: The target's engine in the plan.
        generator: aiperf's command.
        fields: Further fields of every request.
        rows: The trace's requests, where the workload is one.
    """

    options: BenchOptions
    plan: ServingPlan
    engine: EnginePlan
    target: Target
    generator: Path
    fields: Mapping[str, Any]
    rows: tuple[Row, ...]


def check(options: BenchOptions) -> BenchSettings:
    """Check everything that can be known before a system is asked.

    Raises:
        InvalidBenchError: With every error.
    """
    problems = list(_numbers(options))
    problems += _workload(options)
    problems += out_problems(options.out)
    plan = _kept(problems, lambda: plan_file(options.config))
    target = _kept(problems, lambda: _target(options.target))
    generator = _kept(problems, lambda: find_generator(options.generator))
    fields = _kept(problems, lambda: _fields(options.fields))
    rows: tuple[Row, ...] | None = ()
    if options.workload == workloads.TRACE and (trace := options.trace) is not None:
        rows = _kept(problems, lambda: read_trace(trace, max(1, options.shape.requests)))
    if importlib.util.find_spec("matplotlib") is None:
        problems.append("the pictures need matplotlib: pip install 'kascade[bench]'")
    engine = None
    if plan is not None and target is not None:
        engine = next((e for e in plan.engines if e.name == target.engine), None)
        problems += _fit(options, plan, engine, target)
    if problems or not (plan and engine and target and generator):
        raise InvalidBenchError(tuple(problems))
    # A relative program would not be found from another folder.
    return BenchSettings(
        options=replace(options, out=options.out.resolve()),
        plan=plan,
        engine=engine,
        target=target,
        generator=generator.absolute(),
        fields=fields or {},
        rows=rows or (),
    )


def _kept(problems: list[str], make: Callable[[], _Made]) -> _Made | None:
    """Return what is made, or keep the reason why it cannot be."""
    try:
        return make()
    except (KascadeError, ValueError) as error:
        problems.append(str(error))
        return None


def _numbers(options: BenchOptions) -> Iterator[str]:
    shape = options.shape
    whole: dict[str, tuple[int | None, int, int]] = {
        "--requests": (shape.requests, 1, 1_000_000),
        "--groups": (shape.groups, 1, 100_000),
        "--turns": (shape.turns, 1, 1000),
        "--prefix-tokens": (shape.prefix_tokens, 1, 10_000_000),
        "--question-tokens": (shape.question_tokens, 1, 10_000_000),
        "--output-tokens": (shape.output_tokens, 1, 1_000_000),
        "--max-input-tokens": (options.max_input_tokens, 1, 10_000_000),
        "--max-output-tokens": (options.max_output_tokens, 1, 1_000_000),
        "--tier-prompts": (options.tier_prompts, 1, 10_000),
        "--warmup-requests": (options.warmup_requests, 0, 10_000),
    }
    for name, (value, low, high) in whole.items():
        if value is not None and not low <= value <= high:
            yield f"{name} is {value}; it has to be from {low} to {high:,}"
    real: dict[str, tuple[float, float, float]] = {
        "--rate": (shape.rate, 1e-4, 1e5),
        "--trace-speed": (options.trace_speed, 1e-4, 1e5),
        "--request-timeout-seconds": (options.request_timeout_seconds, 1e-3, 604_800),
    }
    for name, (number, least, most) in real.items():
        if not least <= number <= most:
            yield f"{name} is {number:g}; it has to be from {least:g} to {most:,.0f}"
    above: dict[str, float | None] = {
        "--slo-ttft-seconds": options.objective.ttft_seconds,
        "--slo-itl-seconds": options.objective.itl_seconds,
    }
    for name, limit in above.items():
        if limit is not None and not (0 < limit < math.inf):
            yield f"{name} is {limit:g}; it has to be above 0 and finite"
    if not 0 <= shape.pause_seconds < math.inf:
        yield f"--pause-seconds is {shape.pause_seconds:g}; it has to be 0 or more and finite"


def _workload(options: BenchOptions) -> Iterator[str]:
    if options.workload == workloads.TRACE and options.trace is None:
        yield "--workload trace needs --trace FILE, a Mooncake trace"
    if options.workload != workloads.TRACE and options.trace is not None:
        yield f"--trace belongs to --workload trace, and the workload is {options.workload}"
    if unknown := [tier for tier in options.tiers if tier not in PHASES]:
        names = ", ".join(tier or "an empty name" for tier in dict.fromkeys(unknown))
        yield f"--tiers has {names}; it takes {', '.join(PHASES)}, or none alone"
    if twice := [tier for tier in PHASES if options.tiers.count(tier) > 1]:
        yield f"--tiers has {', '.join(twice)} more than once; name each tier once"
    if not options.tiers and not options.load:
        yield "--tiers none and --no-load leave nothing to measure: leave one of them out"
    if not _SALT.fullmatch(options.salt):
        yield f"--salt is {options.salt!r}; it takes 1 to 32 letters, digits, dots, dashes"


def out_problems(out: Path) -> Iterator[str]:
    """Say why results cannot be written there."""
    # Not Path.exists: that raises where a folder above cannot be looked into.
    if os.path.lexists(out) and not _is_empty_folder(out):
        yield f"--out {out} is there already: name a folder that is new or empty"
        return
    above = next(p for p in (*out.absolute().parents, Path("/")) if os.path.lexists(p))
    if not above.is_dir():
        yield f"--out {out} cannot be made: {above} is a file; name a place in a folder"
        return
    try:
        # A file system may reject what permissions allow.
        tempfile.TemporaryDirectory(prefix=".kascade-", dir=above).cleanup()
    except OSError as error:
        yield (
            f"--out {out} cannot be made: {above} cannot be written to ({error.strerror}); name a "
            "place that can"
        )


def _is_empty_folder(path: Path) -> bool:
    try:
        return path.is_dir() and not any(path.iterdir())
    except OSError:
        return False


def _target(path: Path) -> Target:
    try:
        target = Target.read(path)
    except OSError as error:
        msg = f"--target {path} cannot be read: {error.strerror}"
        raise ValueError(msg) from None
    except ValueError as error:
        msg = f"--target {path} cannot be used: {error}"
        raise ValueError(msg) from None
    if not target.replicas:
        msg = f"--target {path} names no replica: there is nothing to measure"
        raise ValueError(msg)
    return target


def _fit(
    options: BenchOptions, plan: ServingPlan, engine: EnginePlan | None, target: Target
) -> Iterator[str]:
    if engine is None:
        names = ", ".join(e.name for e in plan.engines)
        yield (
            f"--target {options.target} is of engine {target.engine}; {options.config} has {names}"
        )
        return
    if target.chunk_size != engine.lmcache.chunk_size:
        yield (
            f"--target {options.target} has chunks of {target.chunk_size} tokens, "
            f"{options.config} plans {engine.lmcache.chunk_size}: they are of different systems"
        )
    if options.workload == workloads.TRACE:
        return
    shape = options.shape
    longest = shape.prefix_tokens + shape.question_tokens + shape.output_tokens
    if options.workload == "multi-turn":
        longest += (shape.turns - 1) * (shape.question_tokens + shape.output_tokens)
    if longest > engine.max_model_len:
        yield (
            f"the longest request of {options.workload} has {longest:,} tokens, {engine.name} "
            f"takes {engine.max_model_len:,}: lower --prefix-tokens, --question-tokens, "
            "--output-tokens or --turns"
        )


def _fields(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        msg = f"--request-fields is {text[:40]!r}; it takes a JSON object"
        raise ValueError(msg)
    try:
        # What is too large for a float, such as 1e999, reads as Infinity.
        json.dumps(value, allow_nan=False)
    except ValueError:
        msg = f"--request-fields is {text[:40]!r}; JSON has no NaN and no Infinity: write a number"
        raise ValueError(msg) from None
    if taken := sorted({"model", "prompt", "max_tokens", "stream", "stream_options"} & set(value)):
        msg = f"--request-fields has {', '.join(taken)}, which the workload sets"
        raise ValueError(msg)
    return value


def find_generator(given: Path | None) -> Path:
    """Return aiperf's command of the release that is known here.

    Raises:
        ValueError: There is none, or another release; the message says what to do.
    """
    program = _there(given) if given else _looked_up()
    # By its metadata: asking the program itself takes seconds.
    lib = program.absolute().parent.parent / "lib"
    found = sorted(p.name for p in lib.glob("python*/site-packages/aiperf-*.dist-info"))
    if found and f"aiperf-{VERSION}.dist-info" not in found:
        release = found[0].removeprefix("aiperf-").removesuffix(".dist-info")
        msg = f"the load generator {program} is aiperf {release}; this needs {VERSION}"
        raise ValueError(msg)
    return program


def _there(given: Path) -> Path:
    if given.is_dir():
        msg = f"--load-generator {given} is a folder: name the file aiperf in it"
        raise ValueError(msg)
    if not given.is_file():
        raise ValueError(_missing(f"{given} is not there"))
    if not os.access(given, os.X_OK):
        msg = f"--load-generator {given} is not executable: name the file bin/aiperf of a venv"
        raise ValueError(msg)
    return given


def _looked_up() -> Path:
    # The environment in use is most often .venv of a checkout, whatever folder this runs in.
    links = [LINK, Path(sys.prefix).parent / LINK]
    on_path = shutil.which("aiperf")
    choices = [*links, *([Path(on_path)] if on_path else [])]
    for choice in choices:
        if choice.is_file() and os.access(choice, os.X_OK):
            return choice
    raise ValueError(_missing(f"it is neither {links[0]} here, nor {links[1]}, nor on PATH"))


def _missing(where: str) -> str:
    return (
        f"the load generator aiperf {VERSION} is missing ({where}): run `make bench-env` in a "
        f"checkout, or `python -m venv DIR && DIR/bin/pip install aiperf=={VERSION}` and name "
        "DIR/bin/aiperf with --load-generator"
    )
