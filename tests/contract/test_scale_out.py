"""What the flag opens that the router needs: `/render` is open, and nothing else of it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.pods import after, arguments, containers
from tools.outputs import Document, Outputs

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-engine" / "bin" / "python"
REFUSED = 403


@pytest.fixture(scope="module")
def asked(synthesized: Callable[[str], Outputs]) -> dict[str, dict[str, int]]:
    if not PYTHON.exists():
        pytest.fail("run `make engine-env`: only vLLM itself says what it answers", pytrace=False)
    objects = [document for _, document in synthesized("default").objects()]
    ((owner, rendered),) = containers(objects, "vllm")
    (mount,) = (m for m in rendered["volumeMounts"] if m["name"] == "programs")
    (volume,) = (v for v in _pod(objects, owner)["volumes"] if v["name"] == "programs")
    (files,) = (
        item["data"]
        for item in objects
        if item["kind"] == "ConfigMap" and item["metadata"]["name"] == volume["configMap"]["name"]
    )
    env = {entry["name"]: entry["value"] for entry in rendered["env"] if "value" in entry}
    path, _, package = mount["mountPath"].rpartition("/")
    assert env["PYTHONPATH"] == path, "where Python looks for it"
    job = {
        "argv": after(arguments(rendered), "serve"),
        "env": {name: value for name, value in env.items() if name.startswith("KASCADE_")},
        "package": package,
        "files": files,
    }
    ran = subprocess.run(
        [str(PYTHON), "-m", "tests.contract.scale_out_checks"],
        cwd=ROOT,
        input=json.dumps(job),
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, dict[str, int]] = json.loads(ran.stdout)
    return found


def _pod(objects: list[Document], owner: str) -> Document:
    kind, _, name = owner.partition("/")
    found: Document = next(
        item["spec"]["template"]["spec"]
        for item in objects
        if item["kind"] == kind and item["metadata"]["name"] == name
    )
    return found


def test_of_what_the_flag_opens_render_alone_is_open(asked: dict[str, dict[str, int]]) -> None:
    closed, opened, rendered = (
        asked[name] for name in ("without the flag", "without the middleware", "as rendered")
    )
    by_the_flag = {path for path in opened if closed.get(path) == REFUSED != opened[path]}
    by_the_flag |= set(opened) - set(closed)
    assert "/inference/v1/abort_requests" in by_the_flag, "it ends requests of others"
    assert {path for path in by_the_flag if rendered[path] != REFUSED} == {
        "/v1/completions/render",
        "/v1/chat/completions/render",
        "/v1/responses/render",
        "/v1/messages/render",
    }


def test_every_other_path_answers_as_ever(asked: dict[str, dict[str, int]]) -> None:
    closed, rendered = asked["without the flag"], asked["as rendered"]
    others = {path: status for path, status in closed.items() if status != REFUSED}
    assert "/v1/chat/completions" in others
    assert {path: rendered[path] for path in others} == others


def test_without_the_flag_render_is_refused(asked: dict[str, dict[str, int]]) -> None:
    """By 403, for which vllm-router has no second way; where this fails, look at both again."""
    assert asked["without the flag"]["/v1/chat/completions/render"] == REFUSED
