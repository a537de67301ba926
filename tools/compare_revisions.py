"""Say which rendered files differ between two revisions, for every configuration.

    python -m tools.compare_revisions HEAD~3            # against the working tree
    python -m tools.compare_revisions v0.1 v0.2 --only default --plan

Each revision synthesizes in a checkout of its own, with this environment's packages. A step that
moves code and changes no output shows it by an empty list; one that does change it shows where.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tools.node  # noqa: F401 - chooses the Node that jsii starts

from tools.outputs import cdk_context

ROOT = Path(__file__).parents[1]
_NO_INPUT = {"reference"}
"""Files of config/ that show every setting and are no deployment."""

_PLAN = "dist/plan.json"
_UNCOMPARED = (".metadata.json", "tree.json", "validation-report.json")
"""For the CDK's own tools, with traces that name jsii's scratch folder; nothing deploys from it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that one revision renders otherwise than the other, or that only one renders."""

    config: str
    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.config}: {self.path} {self.what}"


@contextlib.contextmanager
def checkout(revision: str | None, folder: Path) -> Iterator[Path]:
    """Give a folder with a revision's files; that of the working tree is the working tree."""
    if revision is None:
        yield ROOT
        return
    _git("worktree", "add", "--quiet", "--detach", str(folder), revision)
    try:
        yield folder
    finally:
        _git("worktree", "remove", "--force", str(folder))


def render(tree: Path, config: Path, out: Path) -> dict[str, bytes]:
    """Synthesize one configuration.

    Args:
        tree: A checkout.
        config: A file, which both revisions are given as it is in the working tree.
        out: An empty folder to write to.

    Returns:
        The bytes of each file, by its path.

    Raises:
        SystemExit: It cannot be synthesized.
    """
    context = {**cdk_context(), "config": str(config)}
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "constructs")]),
        "CDK_OUTDIR": str(out / "cdk.out"),
        "CDK_CONTEXT_JSON": json.dumps(context),
    }
    # The app writes dist/ where it runs.
    ran = subprocess.run(
        [sys.executable, tree / "app.py"],
        cwd=out,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        sys.exit(f"{config.name} at {tree}:\n{ran.stderr}")
    files = (
        path
        for path in sorted(out.rglob("*"))
        if path.is_file() and not path.name.endswith(_UNCOMPARED)
    )
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def compare(
    config: Path, before: Path, after: Path, *, plan: bool = False
) -> tuple[int, list[Difference]]:
    """Render a configuration twice.

    Returns:
        How many files both rendered, and those that differ.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch, name) for name in ("before", "after")]
        for folder in folders:
            folder.mkdir()
        old, new = (
            render(tree, config, folder)
            for tree, folder in zip((before, after), folders, strict=True)
        )
    if not plan:
        old.pop(_PLAN, None)
        new.pop(_PLAN, None)
    found = []
    for path in sorted(old | new):
        if path not in new:
            found.append(Difference(config.stem, path, "is no longer rendered"))
        elif path not in old:
            found.append(Difference(config.stem, path, "is new"))
        elif old[path] != new[path]:
            found.append(Difference(config.stem, path, "differs"))
    return len(old), found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what differs.

    Returns:
        0 where nothing does, else 1.
    """
    parser = argparse.ArgumentParser(prog="compare_revisions", description=__doc__)
    parser.add_argument("before", help="a revision, as git names it")
    parser.add_argument("after", nargs="?", help="another one; the working tree without it")
    parser.add_argument("--only", action="append", default=[], help="a configuration, by its name")
    parser.add_argument("--plan", action="store_true", help=f"compare {_PLAN} as well")
    chosen = parser.parse_args(arguments)
    configs = [
        path
        for path in sorted((ROOT / "config").glob("*.yaml"))
        if path.stem not in _NO_INPUT and (not chosen.only or path.stem in chosen.only)
    ]
    with (
        tempfile.TemporaryDirectory() as scratch,
        checkout(chosen.before, Path(scratch, "before")) as before,
        checkout(chosen.after, Path(scratch, "after")) as after,
        ThreadPoolExecutor(max_workers=os.cpu_count()) as pool,
    ):
        results = list(pool.map(lambda one: compare(one, before, after, plan=chosen.plan), configs))
    differences = [one for _, found in results for one in found]
    for one in differences:
        print(one)
    count = sum(files for files, _ in results)
    print(f"{len(configs)} configurations, {count} files: {len(differences)} differ")
    return 1 if differences else 0


def _git(*words: str) -> None:
    subprocess.run(["git", *words], cwd=ROOT, check=True)  # noqa: S607


if __name__ == "__main__":
    sys.exit(main())
