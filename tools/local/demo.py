"""Runs a deployment on this machine until it is interrupted, and shows which tier answers.

.venv/bin/python -m tools.local.demo config/laptop.yaml
"""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kascade import plan_file
from kascade.bench.pages import Counters, counters
from kascade.bench.tiers import Served, served
from kascade.errors import EXIT_INVALID, KascadeError
from kascade.programs.verify.client import UnreachableError, get_text
from tools import engine_env
from tools.debian import NoProgramError
from tools.local.substitutions import NOT_CARRIED_OVER, NOT_STARTED, SUBSTITUTIONS
from tools.local.system import Deployment, LocalError, LocalSystem
from tools.prometheus import programs
from tools.servers import ServerError

STATE: Final = Path(".kascade") / "demo"
TARGET: Final = STATE / "target.json"
INTERRUPTED: Final = 130
"""Exit code of a program that was interrupted, as shells have it."""

LONGEST_SECONDS: Final = 8 * 3600
"""Nobody looks longer, and nothing that was forgotten may stay."""

_REFRESH_SECONDS: Final = 1.0


def main(argv: list[str]) -> int:
    """Run the demo; return the exit code."""
    # Asked to end by whatever means, it ends its servers first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console()
    config = Path(argv[0]) if argv else Path("config/laptop.yaml")
    try:
        plan_file(config)
        with _alone():
            return _run(config, console)
    except (KascadeError, NoProgramError, OSError) as error:
        print(error, file=sys.stderr)
        return EXIT_INVALID
    except (ServerError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the state folder: two demos in it would take each other's files away.

    Raises:
        LocalError: Another one runs.
    """
    STATE.mkdir(parents=True, exist_ok=True)
    with (STATE / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            msg = f"a demo runs in {STATE} already; end it, or start this one in another checkout"
            raise LocalError(msg) from None
        yield


def _run(config: Path, console: Console) -> int:
    """Run it until somebody interrupts."""
    deployment = Deployment.render(config, STATE / "manifests")
    engine_env.main()
    prometheus = programs() / "prometheus"
    _explain(console)
    system = LocalSystem(deployment, STATE, prometheus=prometheus, seconds=LONGEST_SECONDS)
    try:
        system.start(say=console.print)
        TARGET.write_text(system.target.to_json())
        _invite(console, system, config)
        _watch(console, system)
    except KeyboardInterrupt:
        return 0
    finally:
        TARGET.unlink(missing_ok=True)
        console.print("ending everything")
        system.stop()


def _explain(console: Console) -> None:
    """Say what of the manifests is not run as rendered."""
    console.print("The pods of the manifests as processes; what differs:", soft_wrap=True)
    for one in SUBSTITUTIONS:
        console.print(f"  {one.container or 'all'}, {one.name}: {one.reason}", soft_wrap=True)
    for part, reason in {**NOT_STARTED, **NOT_CARRIED_OVER}.items():
        console.print(f"  {part}: {reason}", soft_wrap=True)


def _invite(console: Console, system: LocalSystem, config: Path) -> None:
    """Say what can be done with it."""
    target = system.target
    console.print(f"\nOpenAI's API of {target.model}: {target.router_url}/v1", soft_wrap=True)
    console.print(
        f"Prometheus: {system.prometheus_url}   logs: {system.folder / 'logs'}", soft_wrap=True
    )
    console.print("From another terminal:", soft_wrap=True)
    console.print(f"  .venv/bin/kascade verify {config} --target {TARGET}", soft_wrap=True)
    console.print(f"  .venv/bin/kascade bench {config} --target {TARGET} --help", soft_wrap=True)
    console.print(
        "Ctrl-C ends it; what L2 holds stays, and the next demo begins with it.\n", soft_wrap=True
    )


def _watch(console: Console, system: LocalSystem) -> NoReturn:
    """Show the table until someone interrupts."""
    read = _reader(system)
    if not console.is_terminal:
        _report_changes(console, read)
    with Live(_table(system, read()), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(_REFRESH_SECONDS)
            live.update(_table(system, read()), refresh=True)


def _report_changes(console: Console, read: Callable[[], Mapping[str, Served]]) -> NoReturn:
    """Where there is no screen to redraw: print a line whenever a number has changed."""
    last: dict[str, Served] = {}
    while True:
        for name, tokens in read().items():
            if last.get(name) != tokens:
                last[name] = tokens
                parts = f"computed {tokens.computed:,}, L0 {tokens.l0:,}, L1 {tokens.l1:,}"
                console.print(f"{name}: prompt tokens {parts}, L2 {tokens.l2:,}")
        time.sleep(_REFRESH_SECONDS)


def _reader(system: LocalSystem) -> Callable[[], Mapping[str, Served]]:
    """Return a function that reads what each replica has served since its engine began."""
    last = {replica.name: served(Counters()) for replica in system.target.replicas}

    def read() -> Mapping[str, Served]:
        for replica in system.target.replicas:
            try:
                pages = (
                    get_text(f"{url}/metrics") for url in (replica.engine_url, replica.lmcache_url)
                )
                last[replica.name] = served(counters(*pages))
            except UnreachableError:
                continue
        return last

    return read


def _table(system: LocalSystem, now: Mapping[str, Served]) -> Group:
    table = Table("Replica", "", title="prompt tokens by where their KV came from")
    for name in ("computed", "L0", "L1", "L2"):
        table.add_column(name, justify="right")
    for name, tokens in now.items():
        ready = Text("ready", "green") if system.pods[name].ready else Text("not ready", "red")
        values = (tokens.computed, tokens.l0, tokens.l1, tokens.l2)
        table.add_row(name, ready, *(f"{value:,}" for value in values))
    return Group(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
