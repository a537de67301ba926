"""The AWS side of the rehearsal: MiniStack with the fakes, as a process of its own."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import boto3
import cfnlint

from tools.process import end_group, local_environment
from tools.rehearsal_env import RehearsalEnvironment
from tools.servers import free_ports

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
ACCOUNT = "000000000000"
START_TIMEOUT_SECONDS = 30
LOG_TAIL = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of the record.

    Attributes:
        stack: Name of the stack.
        logical_id: The resource's name in its template.
        type: Such as ``AWS::EKS::Nodegroup``.
        action: create, update, replace or delete.
        changed: The createOnly properties whose change makes another resource.
        error: Why it did not happen; None if it did.
    """

    stack: str
    logical_id: str
    type: str
    action: str
    changed: tuple[str, ...]
    error: str | None


class EmulatorError(Exception):
    """The emulator did not do what the rehearsal needs, in a sentence."""


class Emulator:
    """MiniStack on a free port of the loopback; ends with the block, or with this process.

    Attributes:
        region: The only region in use.
        log: What MiniStack wrote.
    """

    def __init__(  # noqa: PLR0913 - what it runs on, and whom it tells
        self,
        scratch: Path,
        *,
        installed: RehearsalEnvironment,
        region: str,
        kubeconfig: Path,
        nodes_url: str | None = None,
        grafana: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            scratch: Folder for everything that is written.
            installed: See tools/rehearsal_env.py.
            region: Region of the deployment.
            kubeconfig: What CDK's kubectl function gets for its cluster.
            nodes_url: Who hears of node groups; None tells nobody.
            grafana: What leads functions to a Grafana, see `ManagedGrafana.environment`.
        """
        self.region = region
        self.log = scratch / "emulator.log"
        self._scratch = scratch
        self._installed = installed
        self._record = scratch / "record.jsonl"
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._log_file: IO[bytes] | None = None
        self._told = {"REHEARSAL_KUBECONFIG": str(kubeconfig), **(grafana or {})}
        if nodes_url is not None:
            self._told["REHEARSAL_NODES_URL"] = nodes_url

    @property
    def url(self) -> str:
        """Where every AWS API answers."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Process id, which is the group's too.

        Raises:
            EmulatorError: It is not running.
        """
        if self._process is None:
            message = "The AWS emulator is not running."
            raise EmulatorError(message)
        return self._process.pid

    def environment(self) -> dict[str, str]:
        """Return the environment of a program that is to see this AWS and no other."""
        nothing = self._scratch / "nothing"
        return local_environment() | {
            "AWS_ACCESS_KEY_ID": "rehearsal",
            "AWS_SECRET_ACCESS_KEY": "rehearsal",
            "AWS_CONFIG_FILE": str(nothing),
            "AWS_SHARED_CREDENTIALS_FILE": str(nothing),
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_REGION": self.region,
        }

    def __enter__(self) -> Self:
        for folder in ("state", "functions", "tmp"):
            (self._scratch / folder).mkdir(parents=True)
        self._record.touch()
        self._log_file = self.log.open("wb")
        self._process = subprocess.Popen(
            [str(self._installed.python), "-m", "tests.rehearsal.aws.fakes"],
            cwd=self._scratch / "state",
            env=self._own_environment(),
            stdin=subprocess.PIPE,  # closes when this process ends, however it ends
            stdout=self._log_file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            self._await_health()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            end_group(self._process)
            self._process = None
        if self._log_file is not None:
            self._log_file.close()

    def stacks(self) -> dict[str, str]:
        """Return the status of every stack that has not been deleted, by name."""
        return {
            stack["StackName"]: stack["StackStatus"]
            for page in self.client("cloudformation").get_paginator("describe_stacks").paginate()
            for stack in page["Stacks"]
        }

    def events(self, stack: str) -> list[dict[str, Any]]:
        """Return a stack's events, oldest first."""
        pages = self.client("cloudformation").get_paginator("describe_stack_events")
        found = [event for page in pages.paginate(StackName=stack) for event in page["StackEvents"]]
        return found[::-1]

    def resources(self, stack: str) -> dict[str, str]:
        """Return the physical id of every resource of a stack, by logical id."""
        pages = self.client("cloudformation").get_paginator("list_stack_resources")
        return {
            resource["LogicalResourceId"]: resource["PhysicalResourceId"]
            for page in pages.paginate(StackName=stack)
            for resource in page["StackResourceSummaries"]
        }

    def outputs(self, stack: str) -> dict[str, str]:
        """Return a stack's outputs."""
        (found,) = self.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in found["Outputs"]}

    def record(self) -> list[dict[str, Any]]:
        """Return the record as it was written, oldest line first."""
        return [json.loads(line) for line in self._record.read_text().splitlines()]

    def changes(self) -> list[Change]:
        """Return what happened to resources, oldest first."""
        names = set(Change.__dataclass_fields__)
        return [
            Change(
                **{
                    "error": None,
                    **{key: value for key, value in line.items() if key in names},
                    "changed": tuple(line["changed"]),
                }
            )
            for line in self.record()
        ]

    def client(self, service: str) -> Any:
        """Return a boto3 client."""
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=self.region,
            aws_access_key_id="rehearsal",
            aws_secret_access_key="rehearsal",  # noqa: S106 - the emulator checks none
        )

    def _own_environment(self) -> dict[str, str]:
        programs = [HERE / "programs", self._installed.programs]
        schemas = Path(cfnlint.__file__).parent / "data" / "schemas"
        return (
            self.environment()
            | self._told
            | {
                "PATH": os.pathsep.join([*map(str, programs), os.environ.get("PATH", "")]),
                "PYTHONPATH": str(ROOT),
                "PYTHONUNBUFFERED": "1",
                "NODE_PATH": str(self._installed.node_modules),
                "BIND_HOST": "127.0.0.1",  # the default is every address
                "GATEWAY_PORT": str(self._port),
                "MINISTACK_HOST": "127.0.0.1",
                "IOT_MTLS_ENABLED": "0",  # or a listener opens on every address
                "MINISTACK_REGION": self.region,
                "MINISTACK_ACCOUNT_ID": ACCOUNT,
                "PERSIST_STATE": "0",
                "LAMBDA_STRICT": "0",  # functions as local processes
                "LAMBDA_EXECUTOR": "local",
                "LAMBDA_ACCOUNT_CONCURRENCY": "10",  # as of a new account
                "TMPDIR": str(self._scratch / "tmp"),  # functions are unpacked there, and stay
                "TEST_OUTDIR": str(self._scratch / "functions"),  # CDK's kubectl function obeys
                "REHEARSAL_SCHEMAS": str(schemas),
                "REHEARSAL_RECORD": str(self._record),
                "REHEARSAL_LAMBDA_PATH": str(HERE / "lambda_path"),
            }
        )

    def _await_health(self) -> None:
        end = time.monotonic() + START_TIMEOUT_SECONDS
        problem = f"did not answer within {START_TIMEOUT_SECONDS} s"
        while time.monotonic() < end and self._process is not None:
            if (code := self._process.poll()) is not None:
                problem = f"ended with status {code}"
                break
            try:
                with urllib.request.urlopen(f"{self.url}/_ministack/health", timeout=2):  # noqa: S310
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        tail = self.log.read_text(errors="replace")[-LOG_TAIL:]
        message = f"The AWS emulator {problem}. Its log ends with:\n{tail}"
        raise EmulatorError(message)
