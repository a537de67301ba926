"""Builds the control plane of the rehearsal from Go modules, once per machine.

    python -m tools.controlplane.build --kubernetes 1.35

No package index carries kube-apiserver, and a container engine is not asked for; the Go module
proxy has the sources. What is built lies in the user's cache, named after the hash of the pins
(go.mod and go.sum), so every checkout shares it. kwok has pins of its own: each of its releases
compiles against one Kubernetes release only.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.once import built

HERE = Path(__file__).parent
DEFAULT: Final = "1.35"
"""Kascade's own default version of Kubernetes."""

RECIPE: Final = 1
"""Raised when the same pins are built in another way."""

_VERSION: Final = re.compile(
    r"^\s*(?:require )?(k8s\.io/kubernetes|sigs\.k8s\.io/kwok|github\.com/kyverno/kyverno) v(\S+)",
    re.M,
)


class BuildError(Exception):
    """Why there is no control plane, in one sentence."""


@dataclass(frozen=True, slots=True)
class Module:
    """One folder of pins and the programs it makes."""

    folder: Path
    programs: Mapping[str, str]
    """File name of each program, by its package."""

    @property
    def version(self) -> str:
        """Version of what the folder pins, such as 1.35.4."""
        found = _VERSION.search((self.folder / "go.mod").read_text())
        if found is None:
            msg = f"{self.folder / 'go.mod'} requires neither Kubernetes nor kwok nor Kyverno."
            raise BuildError(msg)
        return found[2]

    @property
    def recipe(self) -> bytes:
        """All that decides what the programs are."""
        pins = (self.folder / "go.mod").read_bytes() + (self.folder / "go.sum").read_bytes()
        return pins + f"{RECIPE} {platform.system()} {platform.machine()}".encode()


KYVERNO_KIND: Final = "policies.kyverno.io_mutatingpolicies.yaml"
"""Definition of the kind that the rendered policies have."""

STAGES: Final = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
"""Folders of kwok's repository that say how a simulated node and its pods live."""

KWOK: Final = Module(HERE / "kwok", {"sigs.k8s.io/kwok/cmd/kwok": "kwok"})
KYVERNO: Final = Module(
    HERE / "kyverno", {"github.com/kyverno/kyverno/cmd/cli/kubectl-kyverno": "kyverno"}
)
_CONTROL_PLANE: Final = {
    "go.etcd.io/etcd/server/v3": "etcd",
    "k8s.io/kubernetes/cmd/kube-apiserver": "kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager": "kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler": "kube-scheduler",
}
KUBERNETES: Final = {
    folder.name.removeprefix("kubernetes-"): Module(folder, _CONTROL_PLANE)
    for folder in sorted(HERE.glob("kubernetes-*"))
}


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the built programs are."""

    kubernetes: Path
    kwok: Path
    version: str
    """Version of Kubernetes, such as 1.35.4."""


def build_kwok() -> Path:
    """Build kwok alone, for an existing cluster.

    Returns:
        The folder that holds the program and its stages.

    Raises:
        BuildError: There is no Go, or Go failed.
    """
    return _ensure(KWOK)


def build_kyverno() -> Path:
    """Build Kyverno's command line, which evaluates policies with its admission controller's code.

    Returns:
        The folder that holds the program and the definition of its policies' kind.

    Raises:
        BuildError: There is no Go, or Go failed.
    """
    return _ensure(KYVERNO)


def build(kubernetes: str = DEFAULT) -> Programs:
    """Build what is not built yet.

    Args:
        kubernetes: Minor version, one of the pinned ones.

    Returns:
        The folders that hold the programs.

    Raises:
        BuildError: There is no such pin, no Go, or Go failed.
    """
    if kubernetes not in KUBERNETES:
        pinned = ", ".join(KUBERNETES)
        msg = f"Kubernetes {kubernetes} is not pinned; tools/controlplane pins {pinned}."
        raise BuildError(msg)
    chosen = KUBERNETES[kubernetes]
    return Programs(_ensure(chosen), _ensure(KWOK), chosen.version)


def _ensure(module: Module) -> Path:
    def make(target: Path) -> None:
        _compile(module, target)
        if module is KWOK:
            _collect_stages(target)
        if module is KYVERNO:
            kinds = _sources(module, "github.com/kyverno/kyverno") / "config" / "crds"
            shutil.copy(kinds / "policies.kyverno.io" / KYVERNO_KIND, target)

    return built(module.folder.name, module.recipe, make)


def _compile(module: Module, target: Path) -> None:
    go = shutil.which("go")
    if go is None:
        msg = (
            f"There is no `go` on PATH to build {module.folder.name} {module.version} with. "
            "Install Go 1.26 or newer (https://go.dev/dl). An empty cluster of yours, by "
            "REHEARSAL_KUBECONFIG=PATH, spares building Kubernetes, not building kwok."
        )
        raise BuildError(msg)
    started = time.monotonic()
    major, minor, _ = module.version.split(".", 2)
    stamp = "k8s.io/component-base/version.git"
    flags = (
        f"-s -w -X {stamp}Version=v{module.version} -X {stamp}Major={major} -X {stamp}Minor={minor}"
    )
    # -mod=mod would let Go change the pins; vendoring and version stamps of this checkout would
    # make the same pins another build.
    argv = [go, "build", "-mod=readonly", "-buildvcs=false", f"-ldflags={flags}"]
    argv += ["-o", f"{target}{os.sep}", *module.programs]
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    try:
        target.mkdir()
        done = subprocess.run(
            argv, cwd=module.folder, env=environment, check=False, stderr=subprocess.PIPE, text=True
        )
    except OSError as error:
        msg = f"{go} could not be started, or {target} not be written: {error}."
        raise BuildError(msg) from None
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        msg = f"Go could not build {module.folder.name} {module.version}:\n{tail}"
        raise BuildError(msg)
    for package, name in module.programs.items():
        made = target / _default_name(package)
        if not made.exists():
            msg = f"{go} said nothing, but did not make {made.name} of {package}. Is it Go?"
            raise BuildError(msg)
        made.rename(target / name)
    seconds = time.monotonic() - started
    print(f"built {module.version} from source in {seconds:.0f} s", file=sys.stderr, flush=True)


def _collect_stages(target: Path) -> None:
    """Put kwok's own description of a quick kubelet beside it; the program carries none."""
    stages = _sources(KWOK, "sigs.k8s.io/kwok") / "kustomize" / "stage"
    files = [file for folder in STAGES for file in sorted((stages / folder).glob("[np]o*.yaml"))]
    (target / "stages.yaml").write_text("---\n".join(file.read_text() for file in files))


def _sources(module: Module, path: str) -> Path:
    """Return where Go keeps the sources of a module."""
    argv = ["go", "list", "-m", "-f", "{{.Dir}}", path]
    listed = subprocess.run(argv, cwd=module.folder, check=True, stdout=subprocess.PIPE, text=True)
    return Path(listed.stdout.strip())


def _default_name(package: str) -> str:
    """Name that Go gives a program: the last part of its package that is no major version."""
    return next(part for part in reversed(package.split("/")) if not re.fullmatch(r"v\d+", part))


def main() -> int:
    """Build, and print where the programs are."""
    parser = argparse.ArgumentParser(description="Build the control plane of the rehearsal.")
    parser.add_argument(
        "--kubernetes", default=DEFAULT, help="minor version (default: %(default)s)"
    )
    try:
        programs = build(parser.parse_args().kubernetes)
    except (BuildError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(programs.kubernetes)
    print(programs.kwok)
    return 0


if __name__ == "__main__":
    sys.exit(main())
