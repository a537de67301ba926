"""The lifecycle script under a real containerd: made, rebooted, and renewed twice.

HyperPod's software update gives a node a fresh root volume and leaves the second one as it was.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from kascade.aws.lifecycle import SCRIPT
from tests.contract.renewed_node import LAYERS
from tools import containerd

ROOT = Path(__file__).parents[2]
LONGEST_SECONDS = 300
EMPTYING = '    rm --recursive --force --one-file-system -- "${target}"\n'


def live_through(script: Path, snapshotter: str) -> list[dict[str, Any]]:
    unshare = shutil.which("unshare")
    assert unshare is not None, "unshare, of util-linux, makes the mounts of these tests"
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    argv = [unshare, *as_root, "--mount", sys.executable, "-m", "tests.contract.renewed_node"]
    # A short name, for a socket lies in it.
    with tempfile.TemporaryDirectory(prefix="kascade-node-") as folder:
        done = subprocess.run(
            [*argv, script, containerd.programs(), snapshotter, folder],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
        )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("snapshotter", ["overlayfs", "native"])
def test_every_layer_can_be_prepared_after_every_update(snapshotter: str) -> None:
    stages = live_through(SCRIPT, snapshotter)
    assert [stage["stage"] for stage in stages] == [
        "made",
        "rebooted",
        "renewed-second",
        "renewed-third",
    ]
    assert [stage["said"] for stage in stages] == [[]] * 4
    # The image of the root volume and the one unpacked since; after a reboot both of before, too.
    known = [1 + LAYERS, 1 + 2 * LAYERS, 1 + LAYERS, 1 + LAYERS]
    assert [stage["known"] for stage in stages] == known
    assert [stage["there"] for stage in stages] == known
    assert [stage["kubelet"] for stage in stages] == [["first"], ["first"], ["second"], ["third"]]


def test_state_copied_over_what_was_there_would_be_noticed(tmp_path: Path) -> None:
    """As the script once did it."""
    text = SCRIPT.read_text("utf-8")
    assert text.count(EMPTYING) == 1
    once = tmp_path / "on_create.sh"
    once.write_text(text.replace(EMPTYING, ""))
    stages = live_through(once, "overlayfs")
    assert [bool(stage["said"]) for stage in stages] == [False, False, True, True]
    assert "file exists" in stages[2]["said"][0]
    assert stages[2]["there"] > stages[2]["known"]
