"""The CDK's deploy or destroy, between writing the lock and looking whether it may stay.

    python -m tools.deploying CONFIG PROGRAM... deploy|destroy ARGUMENTS...

The lock is written before a deployment, so that one that is cut off has it. It may stay only for
what exists: where it is new and the deployment failed, or everything was destroyed, CloudFormation
is asked, and without a stack the lock goes again.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import boto3
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from kascade import KascadeError
from kascade.cli.main import main as kascade
from kascade.config.loader import load_config
from kascade.config.lock import lock_path
from kascade.config.model import ServingConfig
from kascade.errors import EXIT_INVALID

PARTS: Final = ("network", "cluster", "serving", "observability")

NOTHING: Final = frozenset({"REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "DELETE_COMPLETE"})
"""States of a stack that holds nothing: never made, or rolled back whole when it was."""

INTERRUPTED: Final = 130


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


def settle(path: Path, client: Callable[[], Any], config: ServingConfig) -> str:
    """Remove a lock of what does not exist; say what was done, and why."""
    try:
        there = stacks_there(client(), config)
    except NoCredentialsError:
        there = []  # nor had the CDK any
    except (BotoCoreError, ClientError) as error:
        return (
            f"{path} stays, since CloudFormation does not say whether a stack exists ({error}). "
            "If none does, delete it."
        )
    if there:
        return f"{path} stays: {', '.join(there)} exists"
    path.unlink(missing_ok=True)
    return f"{path} removed: no stack of {config.name} exists in {config.region}"


def main(argv: Sequence[str]) -> int:
    """Run the CDK, and return its exit status."""
    config, *command = argv
    path = lock_path(Path(config))
    deploying, new = "deploy" in command, not path.exists()
    if deploying and (code := kascade(["lock", "--", config])):
        return code
    try:
        code = _run(command)
        asked = path.exists() and ((code != 0 and new) if deploying else code == 0)
        if asked:
            wanted = load_config(Path(config))
            print(settle(path, partial(_client, command, wanted.region), wanted))
    except KascadeError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_INVALID
    return code


def _run(command: Sequence[str]) -> int:
    with subprocess.Popen(command) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # The terminal told the CDK as well, which ends by itself.
            process.wait()
            return INTERRUPTED


def _client(command: Sequence[str], region: str) -> Any:
    """As the CDK is told to reach AWS: by the environment, or the profile of its command line."""
    profile = None
    for place, word in enumerate(command):
        if word == "--profile" and place + 1 < len(command):
            profile = command[place + 1]
        elif word.startswith("--profile="):
            profile = word.partition("=")[2]
    return boto3.Session(profile_name=profile, region_name=region).client("cloudformation")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
