"""One deployment, driven as a person drives it: a file is edited and the CDK command line run."""

import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.node import pinned_node

import yaml

from tests.checkout import ROOT, copy_checkout
from tests.rehearsal.aws.emulator import ACCOUNT
from tools.outputs import Outputs

CDK = ROOT / "tools" / "cdk" / "node_modules" / "aws-cdk" / "bin" / "cdk"
CONFIG = Path("config", "rehearsal.yaml")
TIMEOUT_SECONDS = 900
SHOWN = 6000


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one call of the command line came to.

    Attributes:
        command: Its arguments.
        code: Its exit status.
        output: Its standard output and error, in the order they came.
        seconds: How long it took.
    """

    command: tuple[str, ...]
    code: int
    output: str
    seconds: float

    def __str__(self) -> str:
        called = " ".join(self.command)
        return f"{called}: exit status {self.code} after {self.seconds:.1f} s"

    def must_succeed(self) -> "Run":
        """Return this run, or fail with the end of what it printed."""
        assert self.code == 0, f"{self}\n...{self.output[-SHOWN:]}"
        return self

    def must_fail(self) -> "Run":
        """Return this run, or fail because it succeeded."""
        assert self.code != 0, f"{self}, although it should fail\n...{self.output[-SHOWN:]}"
        return self


class Deployment:
    """A copy of the checkout with one configuration, and the commands on it.

    Attributes:
        root: The copy.
        config: What the configuration file holds; a test edits it before the next command.
        may_destroy: Whether the next synth gets the second key of docs/deletion.md.
        runs: Every command so far; the folder `runs` keeps what each printed.
    """

    def __init__(
        self,
        root: Path,
        *,
        config: Mapping[str, Any],
        region: str,
        environment: Mapping[str, str],
    ) -> None:
        """Copy the checkout.

        Args:
            root: Folder to make.
            config: The configuration to begin with.
            region: Region of the deployment.
            environment: Of the command line, see `Emulator.environment`.
        """
        self.root = copy_checkout(root)
        # cdk.json names the interpreter by this path.
        (root / ".venv").symlink_to((ROOT / ".venv").resolve(), target_is_directory=True)
        self.config: dict[str, Any] = dict(config)
        self.may_destroy = False
        self.runs: list[Run] = []
        self._region = region
        self._environment = {
            **environment,
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DISABLE_VERSION_CHECK": "1",
            "CDK_HOME": str(root / ".cdk"),
            "CDK_VALIDATION": "false",  # has a test of its own, and costs seconds a synth
            "CI": "true",  # everything to standard output, nothing in colour
            "JSII_NODE": str(pinned_node()),
            "PYTHONPATH": f"{root}:{root / 'constructs'}",
        }

    @property
    def outputs(self) -> Outputs:
        """What the last synth wrote."""
        return Outputs(
            name=str(self.config["name"]), assembly=self.root / "cdk.out", dist=self.root / "dist"
        )

    def bootstrap(self) -> Run:
        """Make the account ready for the CDK."""
        # The default, spelt out: the emulator takes an empty list parameter for a list of one.
        policy = "--cloudformation-execution-policies=arn:aws:iam::aws:policy/AdministratorAccess"
        return self._cdk("bootstrap", f"aws://{ACCOUNT}/{self._region}", policy)

    def synth(self) -> Run:
        """Write templates and manifests of the configuration as it stands."""
        self._write()
        key = ["--context", "kascade:allow-destroy=true"] if self.may_destroy else []
        return self._cdk("synth", "--quiet", "--context", f"config={CONFIG}", *key)

    def kascade(self, verb: str, *arguments: str) -> Run:
        """Run a verb of our own command on the configuration as it stands."""
        self._write()
        argv = [sys.executable, "-m", "kascade.cli", verb, str(CONFIG), *arguments]
        return self._run(argv, (verb, *arguments))

    def deploy(self, *stacks: str) -> Run:
        """Deploy the last synth, as `make deploy` does; or some of its stacks alone."""
        return self._assembled(
            "deploy",
            *(("--exclusively", *stacks) if stacks else ("--all",)),
            "--import-existing-resources",
            "--require-approval=never",
            "--progress=events",
        )

    def diff(self) -> Run:
        """Compare the last synth with what is deployed; fails if that differs."""
        return self._assembled("diff", "--fail")

    def destroy(self, *stacks: str) -> Run:
        """Remove everything that the last synth knows, or some of its stacks alone."""
        which = ("--exclusively", *stacks) if stacks else ("--all",)
        return self._assembled("destroy", *which, "--force")

    def _assembled(self, verb: str, *arguments: str) -> Run:
        return self._cdk(verb, *arguments, "--app", "cdk.out")

    def _write(self) -> None:
        text = yaml.safe_dump(self.config, sort_keys=False)
        (self.root / CONFIG).write_text(text)

    def _cdk(self, *arguments: str) -> Run:
        return self._run([str(pinned_node()), str(CDK), *arguments, "--no-notices"], arguments)

    def _run(self, argv: list[str], arguments: tuple[str, ...]) -> Run:
        began = time.monotonic()
        done = subprocess.run(
            argv,
            cwd=self.root,
            env=self._environment,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
        run = Run(
            command=arguments,
            code=done.returncode,
            output=done.stdout,
            seconds=time.monotonic() - began,
        )
        self.runs.append(run)
        kept = self.root / "runs" / f"{len(self.runs):02}-{arguments[0]}.txt"
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(f"{run}\n{run.output}")
        return run
