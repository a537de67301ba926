"""The CDK's deploy or destroy, between writing the lock and looking whether it may stay.

    python -m tools.deploying deploy|destroy CONFIG PROGRAM ARGUMENTS...

The lock is written before a deployment, so that one that is cut off has it. It may stay only for
what exists: where it is new and the deployment failed, CloudFormation is asked, and without a stack
the lock goes again. So it does where a destroy found stacks and left none; where it found none,
another account may have them.
"""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from kascade import KascadeError
from kascade.cli.main import main as kascade
from kascade.cli.outputs import NO_OUTPUT
from kascade.config.blocks import ServingConfig
from kascade.config.loader import read_lock
from kascade.config.lock import lock_path
from kascade.errors import EXIT_INVALID
from kascade.planning.loading import load_config

PARTS: Final = ("network", "cluster", "serving", "observability")

NOTHING: Final = frozenset({"REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "DELETE_COMPLETE"})
"""States of a stack that holds nothing: never made, or rolled back whole when it was."""

INTERRUPTED: Final = 130

USAGE: Final = "python -m tools.deploying deploy|destroy CONFIG PROGRAM ARGUMENTS..."

SILENT: Final = (BotoCoreError, ClientError, ValueError, OSError)
"""How boto3 fails: also with what the environment has for an endpoint, and a program of a profile
that gives credentials."""

PATIENCE: Final = Config(connect_timeout=10, retries={"total_max_attempts": 3})
"""Without a network the CDK says so, not minutes of silence before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an account has of a deployment.

    Attributes:
        account: Whose credentials are in use.
        stacks: Names of those that hold something.
    """

    account: str
    stacks: tuple[str, ...]


class Aws:
    """The account in use, reached as the CDK is told to: by the environment, or a profile."""

    def __init__(self, command: Sequence[str], config: ServingConfig) -> None:
        self._profile, self._config = _profile(command), config
        self._session: Any = None

    def ask(self) -> Answer:
        """Ask whose account it is and what it has; of the same account each time.

        Raises:
            BotoCoreError, ClientError, ValueError, OSError: It does not say.
        """
        if self._session is None:
            region = self._config.region
            self._session = boto3.Session(profile_name=self._profile, region_name=region)
        sts, cloudformation = (
            self._session.client(service, config=PATIENCE) for service in ("sts", "cloudformation")
        )
        account = sts.get_caller_identity()["Account"]
        stacks = stacks_there(cloudformation, self._config)
        return Answer(account=account, stacks=tuple(stacks))


def stacks_there(cloudformation: Any, config: ServingConfig) -> list[str]:
    """Name the deployment's stacks that hold something."""
    found = []
    for part in PARTS:
        name = f"{config.name}-{part}"
        try:
            (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
        except ClientError as error:
            if "does not exist" not in str(error):
                raise
            continue
        if stack["StackStatus"] not in NOTHING:
            found.append(name)
    return found


def main(argv: Sequence[str]) -> int:
    """Run the CDK, and return its exit status; 2 where it cannot be run."""
    try:
        if sys.stdout is None:
            raise KascadeError(NO_OUTPUT)
        match argv:
            case ["deploy", config, _, *_] if Path(config).name:
                return _deploy(Path(config), argv[2:])
            case ["destroy", config, _, *_] if Path(config).name:
                return _destroy(Path(config), argv[2:])
            case _:
                msg = f"got {' '.join(argv) or 'nothing'}; usage: {USAGE}"
                raise KascadeError(msg)
    except KascadeError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_INVALID
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED


def _deploy(source: Path, command: Sequence[str]) -> int:
    path = lock_path(source)
    before = path.read_bytes() if path.exists() else None
    if code := kascade(["lock", "--", str(source)]):
        return code
    config = load_config(source)
    try:
        code = _run(command)
    except KascadeError:
        if before is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(before)
        raise
    if code != 0 and before is None and path.exists():
        print(_after_failure(path, config, Aws(command, config)))
    return code


def _after_failure(path: Path, config: ServingConfig, aws: Aws) -> str:
    """Remove the lock of a deployment that never was; say what was done, and why."""
    try:
        answer = aws.ask()
    except NoCredentialsError:  # nor had the CDK any
        path.unlink(missing_ok=True)
        return f"{path} removed: without credentials nothing was deployed"
    except SILENT as error:
        return _unsaid(path, error)
    if stays := _stays(path, config, answer):
        return stays
    path.unlink(missing_ok=True)
    return f"{path} removed: account {answer.account} has no stack of {_place(config)}"


def _destroy(source: Path, command: Sequence[str]) -> int:
    path = lock_path(source)
    if not path.exists():
        return _run(command)
    config = load_config(source)
    aws = Aws(command, config)
    before: Answer | Exception
    try:
        before = aws.ask()
    except SILENT as error:
        before = error
    code = _run(command)
    if code == 0 and path.exists():
        print(_after_destroy(path, config, aws, before))
    return code


def _after_destroy(path: Path, config: ServingConfig, aws: Aws, before: Answer | Exception) -> str:
    """Remove the lock of what this destroyed; say what was done, and why."""
    if isinstance(before, Exception):
        return _unsaid(path, before)
    try:
        answer = aws.ask()
    except SILENT as error:
        return _unsaid(path, error)
    if stays := _stays(path, config, answer):
        return stays
    if not before.stacks:
        return (
            f"{path} stays: account {answer.account} had no stack of {_place(config)} before, "
            "either. If that is the account that it was deployed to, delete the file; if not, use "
            "credentials of the other account"
        )
    path.unlink(missing_ok=True)
    return f"{path} removed: account {answer.account} has no stack of {_place(config)} any more"


def _stays(path: Path, config: ServingConfig, answer: Answer) -> str:
    """Say why a lock has to stay; nothing where it need not."""
    account = read_lock(path).get("account", config.account)
    if account is not None and account != answer.account:
        return (
            f"{path} stays: it is of account {account}, and account {answer.account} was asked for "
            f"stacks of {_place(config)}; use credentials of {account}"
        )
    if answer.stacks:
        return f"{path} stays: account {answer.account} has {', '.join(answer.stacks)}"
    return ""


def _place(config: ServingConfig) -> str:
    return f"{config.name} in {config.region}"


def _unsaid(path: Path, error: Exception) -> str:
    return (
        f"{path} stays, since AWS does not say whether a stack exists ({error}). If none does, "
        "delete it"
    )


def _run(command: Sequence[str]) -> int:
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        why = error.strerror or error
        msg = (
            f"{command[0]!r} cannot be started ({why}), so nothing was done; give the path of a "
            "program"
        )
        raise KascadeError(msg) from None
    with process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # The terminal told the CDK as well, which ends by itself.
            process.wait()
            return INTERRUPTED


def _profile(command: Sequence[str]) -> str | None:
    profile = None
    for place, word in enumerate(command):
        if word == "--profile" and place + 1 < len(command):
            profile = command[place + 1]
        elif word.startswith("--profile="):
            profile = word.partition("=")[2]
    return profile


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
