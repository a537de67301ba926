"""A node's life in a mount namespace of its own: made, rebooted, and its root volume renewed twice.

    unshare --mount python -m tests.contract.renewed_node SCRIPT PROGRAMS SNAPSHOTTER FOLDER

Real: containerd and its stores, the lifecycle script, mounts. Played: systemd, and both volumes,
which are file systems in memory. Prints what each stage came to, one JSON object a line.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.servers import Server

LAYERS = 6
SECONDS = 60
STATE = ("containerd", "kubelet")
CONFIG = 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n'


class Node:
    """Its two volumes below one folder."""

    def __init__(self, folder: Path, script: Path, programs: Path, snapshotter: str) -> None:
        self.folder, self.script, self.programs = folder, script, programs
        self.snapshotter = snapshotter
        self.root, self.data = folder / "root", folder / "data"
        self.fstab = folder / "root" / "fstab"
        self.socket = folder / "run" / "c.sock"
        for volume in (self.root, self.data):
            volume.mkdir()
            self.run("mount", "-t", "tmpfs", volume.name, str(volume))
        played = folder / "bin"
        played.mkdir()
        (played / "systemctl").write_text("#!/bin/sh\n[ $1 != is-active ]\n")
        (played / "systemctl").chmod(0o755)
        (folder / "config.toml").write_text(CONFIG)
        self.path = f"{played}:{os.environ['PATH']}"

    def run(self, *words: str) -> str:
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode:
            sys.exit(f"{' '.join(words)}: {done.stderr}")
        return done.stdout

    def ctr(self, *words: str) -> "subprocess.CompletedProcess[str]":
        argv = [str(self.programs / "ctr"), "--address", str(self.socket), "snapshots"]
        argv += ["--snapshotter", self.snapshotter, *words]
        return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=SECONDS)

    def boot(self) -> Server:
        """Start containerd on what lies where it looks."""
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        (self.folder / "run").mkdir()
        words = [f"--config={self.folder / 'config.toml'}", f"--root={self.root / 'containerd'}"]
        words += [f"--state={self.folder / 'run' / 'state'}", f"--address={self.socket}"]
        server = Server("containerd", [self.programs / "containerd", *words], folder=self.folder)
        server.wait_until(lambda: self.ctr("ls").returncode == 0, seconds=SECONDS)
        return server

    def unpack(self, image: str, layers: int) -> list[str]:
        """Prepare and commit layers one on the other; return what went wrong."""
        said, parent = [], ""
        for number in range(layers):
            name = f"{image}-{number}"
            for words in (("prepare", f"{name}-new", parent), ("commit", name, f"{name}-new")):
                done = self.ctr(*(word for word in words if word))
                if done.returncode:
                    said.append(done.stderr.strip())
                    return said
            parent = name
        return said

    def renew(self, image: str) -> None:
        """Give it a fresh root volume, with the one image that comes with it, and provision it."""
        for name in STATE:
            (self.root / name).mkdir()
        (self.root / "kubelet" / image).touch()
        server = self.boot()
        self.unpack(image, 1)
        server.stop()
        environment = {
            "PATH": self.path,
            "CACHE_DIR": "",
            "DATA_MOUNT": str(self.data),
            "STATE_DIRS": " ".join(str(self.root / name) for name in STATE),
            "FSTAB": str(self.fstab),
            "LOG_FILE": str(self.folder / "provisioning.log"),
            "WAIT_SECONDS": "1",
            "PAUSE_SECONDS": "0",
        }
        subprocess.run(["/bin/bash", self.script], env=environment, check=True, timeout=SECONDS)

    def discard_root(self) -> None:
        self.leave_mounts()
        for path in self.root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def leave_mounts(self) -> None:
        for name in STATE:
            self.run("umount", str(self.root / name))

    def stage(self, name: str) -> None:
        """Unpack an image; say what that came to."""
        server = self.boot()
        said = self.unpack(name, LAYERS)
        known = len(self.ctr("ls").stdout.splitlines()) - 1
        server.stop()
        (store,) = (self.root / "containerd").glob(f"*.snapshotter.v1.{self.snapshotter}")
        there = len(list((store / "snapshots").iterdir()))
        kubelet = sorted(path.name for path in (self.root / "kubelet").iterdir())
        found = {"stage": name, "said": said, "known": known, "there": there, "kubelet": kubelet}
        print(json.dumps(found), flush=True)


def main() -> None:
    """Live through it. The mounts go with the namespace."""
    script, programs, snapshotter, folder = sys.argv[1:]
    node = Node(Path(folder), Path(script), Path(programs), snapshotter)
    node.renew("first")
    node.stage("made")
    node.leave_mounts()
    node.run("mount", "--all", "--fstab", str(node.fstab))
    node.stage("rebooted")
    for image in ("second", "third"):
        node.discard_root()
        node.renew(image)
        node.stage(f"renewed-{image}")


if __name__ == "__main__":
    main()
