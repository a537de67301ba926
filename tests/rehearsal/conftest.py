"""One cluster for each configuration, and a table of what ran in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from kascade import KascadeError, plan_file
from tests.checkout import CONFIGS
from tests.rehearsal.cluster import Cluster, own_cluster
from tests.rehearsal.kubectl import Kubectl
from tests.rehearsal.offered import NotOfferedError, check_unused, offered_cluster
from tests.rehearsal.rendered import CONFIGS as CONFIG_FOLDER
from tests.rehearsal.rendered import Rendered
from tools.controlplane.build import DEFAULT, BuildError, build, build_kwok
from tools.rehearsal_env import rehearsal_environment

KUBERNETES = os.environ.get("KUBERNETES") or DEFAULT
_GIVEN = os.environ.get("REHEARSAL_KUBECONFIG")
OFFERED = Path(_GIVEN).expanduser().resolve() if _GIVEN else None

# A person's own AWS settings and proxy have nothing to do with servers on the loopback.
for _name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[_name]
os.environ |= {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
for _name in ("NO_PROXY", "no_proxy"):
    os.environ[_name] = ",".join(filter(None, [os.environ.get(_name), "127.0.0.1,localhost"]))

_FIRST = "test_deploy"
"""The longest file; it begins first, so that the other worker does all the rest meanwhile."""

_SHARING = frozenset(
    {"test_admission", "test_apply", "test_behaviour", "test_faults", "test_kyverno"}
)
"""Files whose tests use the cluster that a configuration was installed into."""

_PODS, _STEPS, _LEFT_OUT = "rehearsal_pods", "rehearsal_steps", "rehearsal_left_out"
_REPORT = pytest.StashKey[dict[str, list[Any]]]()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Build the programs before the first test, or say why there is no rehearsal."""
    session.config.stash[_REPORT] = {_PODS: [], _STEPS: [], _LEFT_OUT: []}
    if hasattr(session.config, "workerinput"):
        return
    # A cancelled run, too, has folders to remove.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        for config in CONFIGS:
            plan_file(CONFIG_FOLDER / f"{config}.yaml")
        build_kwok() if OFFERED else build(KUBERNETES)
        rehearsal_environment()
        if OFFERED:
            check_unused(Kubectl(OFFERED))
    except (
        BuildError,
        KascadeError,
        NotOfferedError,
        OSError,
        subprocess.CalledProcessError,
    ) as error:
        msg = f"The rehearsal was NOT run. {error}"
        raise pytest.UsageError(msg) from None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what a worker saw to the process that prints it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput.update(session.config.stash[_REPORT])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Let tests that share a cluster run in one worker, and those of other files in any."""
    from xdist.scheduler import LoadScopeScheduling

    class ByCluster(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            installed = [name for name in CONFIGS if nodeid.endswith((f"[{name}]", f"-{name}]"))]
            return max(installed, key=len) if installed and Path(file).stem in _SHARING else file

    return ByCluster(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker saw."""
    for name, rows in node.config.stash[_REPORT].items():
        rows.extend(getattr(node, "workeroutput", {}).get(name, []))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and leave out, in words, what a server cannot show."""
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.rehearsal)
        needed = next(item.iter_markers("needs_kubernetes"), None)
        old = needed is not None and not OFFERED and _number(KUBERNETES) < _number(needed.args[0])
        fixtures = getattr(item, "fixturenames", ())
        own = OFFERED and (
            next(item.iter_markers("own_control_plane"), None)
            or "empty_cluster" in fixtures
            or "bare_cluster" in fixtures
            or _operator_managed(item)
        )
        (left_out if old or own else kept).append(item)
    items[:] = sorted(kept, key=lambda item: item.path.stem != _FIRST)
    config.stash[_REPORT][_LEFT_OUT] += [item.nodeid for item in left_out]
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def _operator_managed(item: pytest.Item) -> bool:
    """Whether its pods come by policies that only a server of our own is sure to obey."""
    parameters = getattr(item, "callspec", None)
    name = parameters.params.get("rendered") if parameters else None
    return name in CONFIGS and bool(plan_file(CONFIG_FOLDER / f"{name}.yaml").operator_managed)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@pytest.fixture(scope="session", params=CONFIGS)
def rendered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    """Every shipped configuration in turn, rendered."""
    file = CONFIG_FOLDER / f"{request.param}.yaml"
    return Rendered.from_file(file, tmp_path_factory.mktemp("manifests"))


@pytest.fixture(scope="session")
def cluster(rendered: Rendered, pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster that the configuration was installed into, by the order of its stacks."""
    with _empty_cluster() as made:
        made.install(rendered)
        made.settle()
        rows = [(rendered.file.stem, *row) for row in made.table()]
        pytestconfig.stash[_REPORT][_PODS].extend(rows)
        yield made


@pytest.fixture(scope="session")
def steps(pytestconfig: pytest.Config) -> list[tuple[float, str]]:
    """Seconds and name of each step of a deployment, to be printed at the end."""
    return pytestconfig.stash[_REPORT][_STEPS]


@pytest.fixture
def empty_cluster() -> Iterator[Cluster]:
    """A cluster with nothing in it."""
    with _empty_cluster() as made:
        yield made


@pytest.fixture(scope="module")
def bare_cluster() -> Iterator[Cluster]:
    """A cluster without a node, for AWS to bring them."""
    with _empty_cluster() as made:
        yield made


def _empty_cluster() -> AbstractContextManager[Cluster]:
    return offered_cluster(OFFERED) if OFFERED else own_cluster(KUBERNETES)


@pytest.fixture
def restored(cluster: Cluster, rendered: Rendered) -> Iterator[Cluster]:
    """The cluster, put back into its installed state after the test."""
    yield cluster
    cluster.apply(rendered)
    cluster.forget_events()
    cluster.settle()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print which pods found a node, for every configuration."""
    report: dict[str, list[Any]] = config.stash.get(_REPORT, {_PODS: [], _STEPS: [], _LEFT_OUT: []})
    if report[_LEFT_OUT]:
        why = "an offered cluster" if OFFERED else f"Kubernetes {KUBERNETES}"
        terminalreporter.section(f"left out, since {why} cannot show it")
    for name in dict.fromkeys(report[_LEFT_OUT]):
        terminalreporter.write_line(name)
    if report[_STEPS]:
        terminalreporter.section("a deployment's life, seconds")
    for seconds, step in report[_STEPS]:
        terminalreporter.write_line(f"{seconds:8.1f}  {step}")
    rows = sorted(map(tuple, report[_PODS]), key=lambda row: row[0])
    if not rows:
        return
    server = f"the cluster of {OFFERED}" if OFFERED else f"Kubernetes {KUBERNETES}"
    terminalreporter.section(f"pods, on {server}")
    line = "{:<12} {:<12} {:>7} {:>10} {:>8}"
    terminalreporter.write_line(line.format("deployment", "workload", "wanted", "scheduled", "run"))
    for row in rows:
        terminalreporter.write_line(line.format(*row))
    for name in dict.fromkeys(row[0] for row in rows):
        counts = zip(*(row[2:] for row in rows if row[0] == name), strict=True)
        terminalreporter.write_line(line.format(name, "all", *map(sum, counts)))
