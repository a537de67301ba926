"""``kascade bench``: measures a running system, or compares two such runs."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from kascade.errors import KascadeError

if TYPE_CHECKING:
    from kascade.bench.settings import BenchOptions

_FAILED: Final = 1
_INTERRUPTED: Final = 130
_WORKLOADS: Final = ("shared-prefix", "multi-turn", "rag", "trace")


class UsageError(KascadeError):
    """Arguments that do not go together."""


def add_bench(verbs: Any) -> None:
    """Add the verb's arguments to the command's parser."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "bench",
        help="measure a running system, tier by tier and under load",
        description="Sends a workload to a running system and reports latency, throughput, "
        "goodput, cost and which cache tier the prompts came from. Exit code 1: requests failed, "
        "or a tier phase measured something else.",
    )
    add: Callable[..., object] = parser.add_argument
    add("config", type=Path, nargs="?", help="the configuration file the system was made from")
    add("--target", type=Path, metavar="FILE", help="where replicas, caches and router answer")
    add("--workload", choices=_WORKLOADS, default="shared-prefix", help="default: %(default)s")
    add("--out", type=Path, metavar="DIR", help="a new folder for JSON, CSV, pictures and page")
    add("--compare", type=Path, nargs=2, metavar=("A", "B"), help="compare two runs' folders")
    _shape_arguments(parser.add_argument_group("workload"))
    _run_arguments(parser.add_argument_group("run"))
    parser.set_defaults(run=_bench)


def _shape_arguments(group: Any) -> None:
    def add(name: str, default: object, text: str, **more: Any) -> None:
        group.add_argument(name, default=default, type=type(default), help=text, **more)

    add("--requests", 64, "requests in all; of a trace, the first so many (%(default)s)")
    add("--rate", 1.0, "arrivals a second, of requests or conversations (%(default)s)")
    add("--arrivals", "poisson", "how they come (%(default)s)", choices=("poisson", "constant"))
    add("--groups", 8, "system prompts or documents in use (%(default)s)")
    add("--turns", 4, "turns of a conversation (%(default)s)")
    add("--pause-seconds", 1.0, "from an answer to the next turn (%(default)s)")
    add("--prefix-tokens", 4000, "length of a system prompt or document (%(default)s)")
    add("--question-tokens", 200, "length of what is new in a request (%(default)s)")
    add("--output-tokens", 32, "length of an answer (%(default)s)")
    add("--seed", 1, "of texts, choices and arrivals (%(default)s)")
    group.add_argument("--trace", type=Path, metavar="FILE", help="a Mooncake trace (JSONL)")
    add("--trace-speed", 1.0, "2 replays a trace in half the time (%(default)s)")
    group.add_argument("--max-input-tokens", type=int, help="cut a trace's prompts to this")
    group.add_argument("--max-output-tokens", type=int, help="cut a trace's answers to this")


def _run_arguments(group: Any) -> None:
    add: Callable[..., object] = group.add_argument
    add("--tiers", default="cold,l0,l1,l2", help="tier phases, or none (%(default)s)")
    add("--tier-prompts", type=int, default=8, help="prompts of each tier phase (%(default)s)")
    add("--no-load", action="store_true", help="only the tier phases")
    add("--warmup-requests", type=int, default=2, help="uncounted, to each address (%(default)s)")
    add("--slo-ttft-seconds", type=float, help="goodput: longest time to the first token")
    add("--slo-itl-seconds", type=float, help="goodput: longest mean time between tokens")
    add("--request-timeout-seconds", type=float, default=300.0, help="give up then (%(default)s)")
    add("--salt", help="part of every text; a new one for each run, so that no cache is warm")
    add("--measured-on", default="hardware not described", help="for titles: what was measured")
    add("--planned-hardware", action="store_true", help="it is the hardware that the plan deploys")
    add("--load-generator", type=Path, metavar="FILE", help="the aiperf command to use")
    add("--request-fields", default="{}", metavar="JSON", help="more fields of every request")


def _bench(arguments: argparse.Namespace) -> int:
    if arguments.compare is not None:
        return _compare(arguments)
    missing = [
        name
        for name, value in (
            ("CONFIG", arguments.config),
            ("--target", arguments.target),
            ("--out", arguments.out),
        )
        if value is None
    ]
    if missing:
        msg = (
            f"kascade bench needs {', '.join(missing)}: `kascade bench CONFIG --target FILE --out "
            "DIR` measures, `kascade bench --compare A B` compares two runs"
        )
        raise UsageError(msg)
    return _measure(_options(arguments))


def _options(given: argparse.Namespace) -> BenchOptions:
    from kascade.bench.measures import Objective  # noqa: PLC0415
    from kascade.bench.settings import BenchOptions  # noqa: PLC0415
    from kascade.bench.workloads import Shape  # noqa: PLC0415

    tiers = tuple(tier.strip() for tier in given.tiers.split(","))
    return BenchOptions(
        config=given.config,
        target=given.target,
        workload=given.workload,
        out=given.out,
        trace=given.trace,
        shape=Shape(
            requests=given.requests,
            groups=given.groups,
            turns=given.turns,
            prefix_tokens=given.prefix_tokens,
            question_tokens=given.question_tokens,
            output_tokens=given.output_tokens,
            pause_seconds=given.pause_seconds,
            rate=given.rate,
            arrivals=given.arrivals,
            seed=given.seed,
        ),
        trace_speed=given.trace_speed,
        max_input_tokens=given.max_input_tokens,
        max_output_tokens=given.max_output_tokens,
        tiers=() if tiers == ("none",) else tiers,
        tier_prompts=given.tier_prompts,
        load=not given.no_load,
        warmup_requests=given.warmup_requests,
        objective=Objective(ttft_seconds=given.slo_ttft_seconds, itl_seconds=given.slo_itl_seconds),
        request_timeout_seconds=given.request_timeout_seconds,
        salt=secrets.token_hex(4) if given.salt is None else given.salt,
        measured_on=given.measured_on,
        planned_hardware=given.planned_hardware,
        generator=given.load_generator,
        fields=given.request_fields,
    )


def _measure(options: BenchOptions) -> int:
    from kascade.bench.client import UnreachableError  # noqa: PLC0415
    from kascade.bench.load import LoadError  # noqa: PLC0415
    from kascade.bench.report import summary_lines, write_report  # noqa: PLC0415
    from kascade.bench.runner import run  # noqa: PLC0415
    from kascade.bench.settings import check  # noqa: PLC0415

    settings = check(options)
    try:
        with (
            _ended_in_order(),
            _all_or_nothing(settings.options.out) as folder,
            tempfile.TemporaryDirectory(prefix="kascade-bench-") as scratch,
        ):
            result = run(settings, Path(scratch), _teller())
            write_report(result, folder)
    except (LoadError, UnreachableError) as error:
        sys.stderr.write(f"the run broke off, nothing was written: {error}\n")
        return _FAILED
    except KeyboardInterrupt:
        sys.stderr.write("interrupted, nothing was written\n")
        return _INTERRUPTED
    sys.stdout.write("\n".join([*summary_lines(result), f"written to {options.out}"]) + "\n")
    return 0 if result.sound else _FAILED


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let a shell or a CI runner that ends the run clean up as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # Once: a second one would break off the cleaning up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _compare(arguments: argparse.Namespace) -> int:
    from kascade.bench.compare import comparison_lines, write_comparison  # noqa: PLC0415
    from kascade.bench.document import read_document  # noqa: PLC0415
    from kascade.bench.settings import InvalidBenchError, out_problems  # noqa: PLC0415
    from kascade.bench.verdicts import compare  # noqa: PLC0415

    problems = list(out_problems(arguments.out)) if arguments.out is not None else []
    documents = []
    for path in arguments.compare:
        try:
            documents.append(read_document(path))
        except KascadeError as error:
            problems.append(str(error))
    if problems:
        raise InvalidBenchError(tuple(problems))
    first, second = documents
    comparison = compare(first, second, names=_labels(*arguments.compare))
    sys.stdout.write("\n".join(comparison_lines(comparison)) + "\n")
    if arguments.out is not None:
        with _all_or_nothing(arguments.out.resolve()) as folder:
            write_comparison(comparison, folder)
        sys.stdout.write(f"written to {arguments.out}\n")
    return 0


def _labels(first: Path, second: Path) -> tuple[str, str]:
    """Name two runs by their folders, in full where those have one name."""
    folders = [path if path.is_dir() else path.parent for path in (first, second)]
    names = [folder.resolve().name for folder in folders]
    return (str(first), str(second)) if names[0] == names[1] else (names[0], names[1])


def _teller() -> Callable[[str], None]:
    start, last = time.monotonic(), ""

    def tell(line: str) -> None:
        nonlocal last
        if line != last:
            sys.stderr.write(f"{time.monotonic() - start:6.0f} s  {line}\n")
            last = line

    return tell


@contextmanager
def _all_or_nothing(out: Path) -> Iterator[Path]:
    """Yield a folder that becomes ``out`` when all went well and vanishes otherwise."""
    missing = [parent for parent in out.parents if not parent.exists()]
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        yield folder
        # mkdtemp makes it for its owner alone.
        folder.chmod(0o777 & ~_umask())
        if out.is_dir():
            out.rmdir()
        folder.rename(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for parent in missing:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
