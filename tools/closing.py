"""The last lines of `make synth`: what was written, how much of it, and what to do next."""

import sys
from pathlib import Path

from tools.outputs import Outputs

ROOT = Path(__file__).parents[1]
TEMPLATE_LIMIT = 1_000_000


def closing(outputs: Outputs, config: str) -> str:
    """Return the summary as text."""
    lines = [""]
    for stack, path in outputs.template_files.items():
        resources = len(outputs.templates()[stack]["Resources"])
        share = 100 * path.stat().st_size / TEMPLATE_LIMIT
        where = f"{path.parent.name}/{path.name}"
        lines.append(f"  {where:<56} {resources:>3} resources, {share:2.0f} % of the size limit")
    objects = outputs.objects()
    for path in outputs.manifest_files:
        count = sum(1 for file, _ in objects if file == path)
        where = str(path.relative_to(outputs.dist.parent))
        lines.append(f"  {where:<56} {count:>3} object{'' if count == 1 else 's'}")
    lines.append(f"  {'dist/plan.json':<56}     every number and name")
    lines += ["", f"Next: make diff CONFIG={config}, then make deploy CONFIG={config}"]
    return "\n".join(lines)


def main() -> None:
    """Print the summary of the checkout's own folders."""
    (config,) = sys.argv[1:]
    outputs = Outputs(name=Path(config).stem, assembly=ROOT / "cdk.out", dist=ROOT / "dist")
    print(closing(outputs, config))


if __name__ == "__main__":
    main()
