"""Arguments, exit codes and nothing else; each verb has its own module."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from kascade.cli.bench import add_bench
from kascade.cli.lock import add_lock
from kascade.cli.outputs import NO_OUTPUT, STANDARD_OUTPUT, keep_inputs
from kascade.cli.preflight import add_preflight
from kascade.cli.status import add_status
from kascade.cli.verify import add_arguments as add_verify
from kascade.errors import EXIT_INVALID, KascadeError, unwritable
from kascade.programs.verify.command import EXIT_INTERRUPTED


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: Arguments without the program's name; the process's own by default.

    Returns:
        0 when all went well, 2 when the input cannot be used, 130 when it was interrupted; a verb
        may have codes of its own.
    """
    arguments = _parser().parse_args(argv)
    _hear_interrupts()
    code = 0
    try:
        # As Python has it where a shell closed it (`>&-`).
        if sys.stdout is None:
            raise KascadeError(NO_OUTPUT)
        run: Callable[[argparse.Namespace], int] = arguments.run
        code = run(arguments)
        sys.stdout.flush()
    except KascadeError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_INVALID
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough.
        _leave_output()
    except OSError as error:
        sys.stderr.write(f"{unwritable(error)}\n")
        _leave_output()
        return EXIT_INVALID
    return code


def _leave_output() -> None:
    """Send what standard output did not take nowhere, or Python would complain again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _hear_interrupts() -> None:
    """Let SIGINT interrupt, also where the process began with it ignored.

    A shell starts the background jobs of a script so, and Python then leaves it at that.
    """
    here = threading.current_thread() is threading.main_thread()
    if here and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kascade", description="LLM serving with a tiered KV cache, as code."
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    plan = verbs.add_parser("plan", help="show every number that follows from a configuration")
    plan.add_argument("config", type=Path, help="the configuration file, such as config/fleet.yaml")
    plan.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="also write the plan to this file; - prints it instead of the tables",
    )
    plan.set_defaults(run=_plan)
    verify = verbs.add_parser(
        "verify", help="prove that one replica answers from what another one computed"
    )
    add_verify(verify)
    add_bench(verbs)
    add_lock(verbs)
    add_preflight(verbs)
    add_status(verbs)
    return parser


def _plan(arguments: argparse.Namespace) -> int:
    from kascade.cli.plan_view import show_plan  # noqa: PLC0415  (rich is slow to import)
    from kascade.planning.planner import plan_file  # noqa: PLC0415
    from kascade.sizing.document import plan_text, write_plan  # noqa: PLC0415

    if arguments.json is not None:
        keep_inputs(arguments.json, arguments.config, "a plan")
    plan = plan_file(arguments.config)
    if arguments.json == STANDARD_OUTPUT:
        sys.stdout.write(plan_text(plan))
        return 0
    show_plan(plan, source=str(arguments.config))
    if arguments.json is not None:
        write_plan(plan, arguments.json)
    return 0
