"""L2 ``managed``: LMCache's own adapter, given what is rendered, in front of a stand-in daemon."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kascade import ServingPlan
from kascade.plan import ManagedL2Plan
from tests.contract.pods import after, arguments, containers
from tests.contract.test_engine_arguments import PYTHON
from tools.outputs import Document, Outputs

ROOT = Path(__file__).parents[2]


CASES = {"encrypted": (True, False), "plain": (False, False), "pinned": (True, True)}
"""Whether blocks are encrypted, and whether the daemon's file is mounted by itself."""


@pytest.fixture(scope="module")
def results(synthesized: Callable[[str], Outputs]) -> dict[str, Document]:
    """What came of storing with one replica and loading with another."""
    objects = [document for _, document in synthesized("managed").objects()]
    ((_, server),) = containers(objects, "lmcache")
    argv = after(arguments(server), "server")
    jobs = [
        {"argv": argv, "encrypted": encrypted, "pinned": pinned}
        for encrypted, pinned in CASES.values()
    ]
    done = subprocess.run(
        [str(PYTHON), "-m", "tests.contract.managed_checks"],
        cwd=ROOT,
        input=json.dumps(jobs),
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.fixture(params=["encrypted", "plain"])
def run(request: pytest.FixtureRequest, results: dict[str, Document]) -> Document:
    """The same for what is rendered: a link to a file of the host."""
    return results[request.param] | {"encrypted": request.param == "encrypted"}


def test_one_replica_loads_what_another_one_stored(run: Document) -> None:
    assert run["stored"] is True
    assert run["found"] == run["loaded"] == [True] * 5
    assert run["right"] is True
    assert not any(run["unknown"])


def test_serde_works_with_this_adapter(run: Document) -> None:
    assert run["plain"] is not run["encrypted"]


def test_objects_lie_in_the_engines_own_bucket(
    run: Document, plan: Callable[[str], ServingPlan]
) -> None:
    l2 = plan("managed").engines[0].lmcache.l2
    assert isinstance(l2, ManagedL2Plan)
    assert run["buckets"] == [l2.bucket]


def test_every_lease_is_given_back(run: Document) -> None:
    assert run["leases_left"] == 0


def test_a_file_that_the_daemon_makes_anew_is_followed(run: Document) -> None:
    again = run["after_restart"]
    assert again["found"] == again["loaded"] == again["right"] == [True] * 5


def test_a_file_mounted_by_itself_would_be_wrong_answers(results: dict[str, Document]) -> None:
    """Why the directory is mounted and not the file: aesgcm encrypts a block, not its name."""
    again = results["pinned"]["after_restart"]
    assert again["found"] == again["loaded"] == [True] * 5
    assert not any(again["right"])
