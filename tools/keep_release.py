"""Keeps what today's release renders, for the upgrade that every later change rehearses.

    python -m tools.keep_release

Writes tests/data/releases/VERSION/CONFIG/*.yaml, VERSION being pyproject.toml's. A folder that is
there already is left alone: what a release rendered does not change afterwards.
"""

import sys
import tempfile
import tomllib
from pathlib import Path

import tools.node  # noqa: F401 - chooses the Node that jsii starts

from k8s.charts import build_charts, manifest_app
from kascade import plan_file

ROOT = Path(__file__).parents[1]
RELEASES = ROOT / "tests" / "data" / "releases"


def main() -> int:
    """Write the folder; 2 when it is there already."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    target = RELEASES / version
    if target.exists():
        print(
            f"{target.relative_to(ROOT)} is there already: raise the version in pyproject.toml, or "
            f"delete the folder if that version was never released.",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory(dir=RELEASES, prefix=".") as scratch:
        whole = Path(scratch, version)
        for config in sorted((ROOT / "config").glob("*.yaml")):
            if config.stem != "reference":
                _render(config, whole / config.stem)
        whole.rename(target)
    print(f"kept {target.relative_to(ROOT)}")
    return 0


def _render(config: Path, folder: Path) -> None:
    app = manifest_app(str(folder))
    charts = build_charts(app, plan_file(config))
    app.synth()
    if charts.dashboards is not None:  # Managed Grafana's, not the cluster's
        (folder / f"{charts.dashboards.node.id}.yaml").unlink()


if __name__ == "__main__":
    sys.exit(main())
