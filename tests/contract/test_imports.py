"""What `import kascade` costs: planning starts no Node and loads no SDK."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"aws_cdk", "boto3", "botocore", "cdk8s", "cdk_nag", "constructs", "jsii", "rich"}


@pytest.mark.parametrize("module", ["kascade", "kascade.sizing.document", "kascade.kube"])
def test_the_pure_face_loads_nothing_heavy(module: str) -> None:
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", f"import {module}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    loaded = {
        line.rpartition("|")[2].strip().partition(".")[0]
        for line in result.stderr.splitlines()
        if line.startswith("import time:")
    }
    assert "kascade" in loaded
    assert loaded & HEAVY == set()
