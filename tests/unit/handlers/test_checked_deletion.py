"""The layer in front of CDK's own kubectl function, with programs that fail."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from kascade.handlers.checked_deletion.python import checked_deletion
from kascade.handlers.checked_deletion.python.checked_deletion import (
    MANIFEST,
    RELEASE,
    LeftoverError,
    check,
)

INSIDE = "package/custom-resource-handlers/dist/aws-eks-v2/kubectl-handler/"
OBJECT = '[{"kind": "Service", "metadata": {"name": "a"}}]'


@pytest.fixture(scope="module")
def cdk_handler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CDK's own function, out of the archive that jsii loads aws-cdk-lib from."""
    folder = tmp_path_factory.mktemp("cdk")
    (archive,) = Path(cdk.__file__).parent.glob("_jsii/aws-cdk-lib@*.jsii.tgz")
    with tarfile.open(archive) as library:
        inside = [member for member in library if member.name.startswith(INSIDE)]
        library.extractall(folder, members=inside, filter="data")
    return folder / INSIDE


def event(kind: str = MANIFEST, request: str = "Delete") -> dict[str, Any]:
    return {
        "RequestType": request,
        "ResourceType": kind,
        "ResourceProperties": {
            "ClusterName": "x",
            "Manifest": OBJECT,
            "Release": "r",
            "Namespace": "n",
        },
    }


def call(cdk_handler: Path, tmp_path: Path, module: str, script: str, kind: str) -> str:
    """Call a Lambda entry point in a process of its own; return its error, or nothing."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in {"aws": "exit 0", "kubectl": script, "helm": script}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    layer = Path(checked_deletion.__file__).parent
    code = (
        f"import {module} as entry\n"
        "import sys\n"
        "if hasattr(entry, 'PATIENCE_SECONDS'): entry.PATIENCE_SECONDS = 3\n"
        f"entry.handler({event(kind)!r}, None)\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": f"{cdk_handler}:{layer}",
            "TEST_OUTDIR": str(tmp_path),
        },
    )
    return done.stderr if done.returncode else ""


REFUSING = (
    'case "$1" in get) echo service/a;; status) echo deployed;; *) echo Unauthorized; exit 1;; esac'
)


@pytest.mark.parametrize(("kind", "left"), [(MANIFEST, "service/a"), (RELEASE, "release r")])
def test_what_the_cdk_calls_done_fails_and_is_named(
    cdk_handler: Path, tmp_path: Path, kind: str, left: str
) -> None:
    """The first half is what makes the layer needed; if it fails, the CDK says so itself by now."""
    plain, checked = tmp_path / "plain", tmp_path / "checked"
    plain.mkdir()
    checked.mkdir()
    assert call(cdk_handler, plain, "index", REFUSING, kind) == ""
    said = call(cdk_handler, checked, "checked_deletion", REFUSING, kind)
    assert f"still has what was to be deleted, or does not say: {left}: Unauthorized" in said


@pytest.mark.parametrize("kind", [MANIFEST, RELEASE])
def test_what_is_gone_is_done(cdk_handler: Path, tmp_path: Path, kind: str) -> None:
    script = 'case "$1" in status) echo "Error: release: not found"; exit 1;; esac'
    assert call(cdk_handler, tmp_path, "checked_deletion", script, kind) == ""


class Programs:
    """Answers of kubectl, the last one again and again."""

    def __init__(self, **answers: list[tuple[int, str]]) -> None:
        self.answers = answers
        self.calls: list[str] = []

    def __call__(self, _program: str, verb: str, *_: str) -> tuple[int, str]:
        self.calls.append(verb)
        answers = self.answers[verb]
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture(autouse=True)
def _scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_deletion, "_LEFT", str(tmp_path / "left.json"))


def test_an_error_of_the_moment_is_tried_again() -> None:
    programs = Programs(get=[(0, "service/a"), (0, "")], delete=[(0, "deleted")])
    check(event(), command=programs, sleep=lambda _: None)
    assert programs.calls == ["get", "delete", "get"]


def test_the_wait_has_an_end_and_names_every_object() -> None:
    slept: list[float] = []
    programs = Programs(get=[(0, "service/a\nsecret/b")], delete=[(1, "Forbidden")])
    with pytest.raises(LeftoverError, match="service/a, secret/b: Forbidden"):
        check(event(), command=programs, sleep=slept.append)
    assert sum(slept) == checked_deletion.PATIENCE_SECONDS


def test_a_server_that_does_not_answer_is_no_success() -> None:
    programs = Programs(get=[(1, "Unable to connect to the server: i/o timeout")])
    with pytest.raises(LeftoverError, match="Unable to connect"):
        check(event(), command=programs, sleep=lambda _: None)


def test_objects_of_a_kind_that_is_gone_are_gone() -> None:
    check(event(), command=Programs(get=[(1, 'error: no matches for kind "A"')]))
