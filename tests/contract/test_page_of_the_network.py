"""docs/network.md: the images to mirror, and the commands that list and copy them."""

import re
import subprocess
import sys
from pathlib import Path

import yaml

from kascade.catalog.images import IMAGES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "network.md").read_text()
CLOSED = yaml.safe_load((ROOT / "config" / "closed.yaml").read_text())
ELSEWHERE = {"region": "us-east-2", "zones": ["us-east-2a", "us-east-2b"]}


def test_the_table_names_every_image_of_the_catalog() -> None:
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| `([^`]+)` \|", PAGE, re.MULTILINE))
    assert rows == {key: image.reference for key, image in IMAGES.items()}


def plan(folder: Path, config: dict[str, object]) -> subprocess.CompletedProcess[str]:
    (folder / "my.yaml").write_text(yaml.safe_dump(config))
    argv = [sys.executable, "-m", "kascade.cli", "plan", "my.yaml"]
    return subprocess.run(argv, cwd=folder, check=False, capture_output=True, text=True)


def block(beginning: str) -> str:
    """Find the indented block that begins with some words."""
    found = re.findall(r"(?:^    .*\n)+", PAGE, re.MULTILINE)
    (text,) = (text for text in found if text.lstrip().startswith(beginning))
    return re.sub(r"^    ", "", text, flags=re.MULTILINE)


def test_what_the_commands_write_is_what_the_configuration_wants(tmp_path: Path) -> None:
    bare = {**CLOSED, **ELSEWHERE}
    del bare["images"]
    refused = plan(tmp_path, bare)
    assert refused.returncode != 0
    (tmp_path / "said.txt").write_text(refused.stdout + refused.stderr)
    listing = block(".venv/bin/kascade plan").replace(
        ".venv/bin/kascade plan config/my.yaml 2>&1", "cat said.txt"
    )
    copying = block("REGISTRY=").replace("us-west-2", "us-east-2")
    subprocess.run(["/bin/bash", "-euc", listing + copying], cwd=tmp_path, check=True)
    written = yaml.safe_load((tmp_path / "images.yaml").read_text())["images"]
    assert set(written) == set(CLOSED["images"]) | {"efa_device_plugin"}
    assert (tmp_path / "mirror.sh").read_text().count("skopeo copy --all") == len(written)
    accepted = plan(tmp_path, {**bare, "images": written})
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
