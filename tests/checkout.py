"""Runs app.py as a person would, but in a copy of the checkout: nothing of theirs is touched."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.outputs import cdk_context

ROOT = Path(__file__).parents[1]
CONFIGS = sorted(p.stem for p in (ROOT / "config").glob("*.yaml") if p.stem != "reference")
PARTS = ("app.py", "cdk.json", "config", "constructs", "k8s", "stacks", "tools")


def copy_checkout(target: Path) -> Path:
    """Copy what a synth needs; the environment stays where it is."""
    target.mkdir(parents=True)
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "node_modules")
            shutil.copytree(source, target / part, ignore=ignored)
        else:
            shutil.copy2(source, target / part)
    return target


def run_app(
    root: Path,
    config: str,
    *,
    program: str = "app.py",
    context: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run app.py of the copy, or a program that imports it, with the flags of cdk.json."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CDK"))
    }
    flags = cdk_context() | {"config": f"config/{config}.yaml"} | dict(context or {})
    own = {
        "CDK_CONTEXT_JSON": json.dumps(flags),
        "CDK_OUTDIR": str(root / "cdk.out"),
        "CDK_VALIDATION": "false",
        "PYTHONPATH": f"{root}{os.pathsep}{root / 'constructs'}",
    }
    return subprocess.run(
        [sys.executable, program],
        cwd=root,
        env=inherited | own | dict(environment or {}),
        check=False,
        capture_output=True,
        text=True,
    )
