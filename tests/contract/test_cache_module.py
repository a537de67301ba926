"""Our module in LMCache's server, given to LMCache itself as it is rendered."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kascade.kube.cache_program import CACHE_MODULE_ENV, CACHE_MODULE_MOUNT
from tests.contract.managed_checks import CHUNKS
from tests.contract.pods import after, arguments, containers
from tests.contract.test_engine_arguments import PYTHON
from tools.outputs import Document, Outputs

ROOT = Path(__file__).parents[2]
SPOILT = ["random bytes", "one flipped bit", "new key", "foreign key"]


@pytest.fixture(scope="module")
def results(
    synthesized: Callable[[str], Outputs], tmp_path_factory: pytest.TempPathFactory
) -> Document:
    """What came of it, in the engine environment."""
    objects = [document for _, document in synthesized("default").objects()]
    ((_, server),) = containers(objects, "lmcache")
    folder = tmp_path_factory.mktemp("module")
    (carried,) = (
        item
        for item in objects
        if item["kind"] == "ConfigMap" and item["metadata"]["name"] == "kascade-cache-module"
    )
    for name, text in carried["data"].items():
        (folder / name).write_text(text)
    job = {"argv": after(arguments(server), "server"), "module": str(folder)}
    done = subprocess.run(
        [str(PYTHON), "-m", "tests.contract.cache_checks"],
        cwd=ROOT,
        input=json.dumps(job),
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: Document = json.loads(done.stdout)
    return found


def test_python_finds_the_module_where_it_is_mounted() -> None:
    path, _, package = str(CACHE_MODULE_MOUNT["mountPath"]).rpartition("/")
    assert (path, package) == (CACHE_MODULE_ENV["PYTHONPATH"], "kascade_cache")


def test_what_can_be_opened_is_left_alone(results: Document) -> None:
    run = results["with"]["nothing"]
    assert run["first"] == run["again"] == [True] * CHUNKS
    assert (run["left"], run["right"]) == (CHUNKS, True)
    status = run["status"]["kascade_cache"]
    assert status["unopened_blocks_deleted"] == 0
    assert run["renewed"] == status["files_renewed"] == CHUNKS, "once, though loaded twice"


@pytest.mark.parametrize("kind", SPOILT)
def test_what_cannot_be_opened_is_replaced_by_the_next_store(results: Document, kind: str) -> None:
    run = results["with"][kind]
    assert run["found"] == [True] * CHUNKS
    assert run["first"] == [False] * CHUNKS
    assert run["left"] == 0, "gone before the failure is told"
    assert run["stored"] is True
    assert run["again"] == [True] * CHUNKS
    assert run["right"] is True
    status = run["status"]["kascade_cache"]
    assert (status["opening_is_watched"], status["unopened_blocks_deleted"]) == (1, CHUNKS)


@pytest.mark.parametrize("kind", SPOILT)
def test_lmcache_alone_never_replaces_it_and_says_that_it_did(results: Document, kind: str) -> None:
    """What the module is for; once this fails it can go."""
    run = results["without"][kind]
    assert (run["left"], run["stored"]) == (CHUNKS, True)
    assert run["again"] == [False] * CHUNKS


def test_the_server_forgets_the_dead_and_never_the_idle(results: Document) -> None:
    assert results["registered"] == {
        "idle for a day": True,
        "idle for a year": True,
        "asked ten seconds ago": True,
        "asked, then silent for an hour": False,
    }
