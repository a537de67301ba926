"""What Kascade adds to the cost of a synth and of a plan.

    make floor

The floor of a synth is the CDK itself: a bare app with a VPC, an EKS cluster with its kubectl layer
and a HyperPod cluster, no Kascade. The floor of a plan is importing pydantic and yaml. Kascade and
floor take turns, so that a busy machine hurts both alike; the medians and their ratio are printed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.node import pinned_node

from tools.outputs import cdk_context

ROOT = Path(__file__).parents[1]

BARE_APP = """
import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2, aws_eks_v2 as eks, aws_iam as iam, aws_sagemaker as sagemaker
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer

class Bare(cdk.Stack):
    @property
    def availability_zones(self):
        return ["us-west-2a", "us-west-2b"]

app = cdk.App()
stack = Bare(app, "bare", env=cdk.Environment(account="111111111111", region="us-west-2"))
vpc = ec2.Vpc(stack, "Vpc", max_azs=2)
cluster = eks.Cluster(
    stack, "Cluster", vpc=vpc, version=eks.KubernetesVersion.of("1.35"),
    default_capacity_type=eks.DefaultCapacityType.NODEGROUP, default_capacity=0,
    kubectl_provider_options=eks.KubectlProviderOptions(
        kubectl_layer=KubectlV35Layer(stack, "Kubectl")
    ),
)
role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
sagemaker.CfnCluster(
    stack, "HyperPod", cluster_name="bare",
    orchestrator={"eks": {"clusterArn": cluster.cluster_arn}},
    instance_groups=[{
        "instanceGroupName": "gpu", "instanceType": "ml.g6e.4xlarge", "instanceCount": 2,
        "executionRole": role.role_arn,
        "lifeCycleConfig": {"onCreate": "on_create.sh", "sourceS3Uri": "s3://sagemaker-bare/x"},
    }],
    vpc_config={
        "securityGroupIds": [cluster.cluster_security_group_id],
        "subnets": [subnet.subnet_id for subnet in vpc.private_subnets],
    },
)
app.synth()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something to time."""

    what: str
    argv: Sequence[str]
    environment: Mapping[str, str]

    def seconds(self) -> float:
        """Run it once."""
        start = time.perf_counter()
        ran = subprocess.run(
            self.argv, cwd=ROOT, env=self.environment, check=False, capture_output=True, text=True
        )
        if ran.returncode:
            sys.exit(f"{self.what} failed:\n{ran.stdout}{ran.stderr}")
        return time.perf_counter() - start


def compare(ours: Command, floor: Command, *, runs: int) -> str:
    """Time both in turns, after one run each that warms the caches, and return the result."""
    for command in (ours, floor):
        command.seconds()
    pairs = [(ours.seconds(), floor.seconds()) for _ in range(runs)]
    mine, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
    return (
        f"  {ours.what:<34} {mine:6.2f} s\n"
        f"  {floor.what:<34} {bare:6.2f} s\n"
        f"  {'ratio of the medians':<34} {mine / bare:6.2f}"
    )


def _own_environment() -> dict[str, str]:
    """Return the environment, with bytecode kept: compiling it again each run is no user's cost."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def synth(config: Path, scratch: Path, *, validation: bool) -> tuple[Command, Command]:
    """Return Kascade's synth and the bare one."""
    bare = scratch / "bare.py"
    bare.write_text(BARE_APP)

    def command(what: str, program: Path, folder: str, **context: str | bool) -> Command:
        environment = _own_environment() | {
            "CDK_CONTEXT_JSON": json.dumps(cdk_context() | context),
            "CDK_OUTDIR": str(scratch / folder),
            "CDK_VALIDATION": str(validation).lower(),
            "JSII_NODE": str(pinned_node()),
        }
        return Command(what=what, argv=[sys.executable, str(program)], environment=environment)

    ours = command("app.py, whole", ROOT / "app.py", "ours", config=str(config))
    # The bare app is validated all the same; only its findings do not stop it.
    lenient = {"@aws-cdk/core:strictCfnValidateErrors": False}
    return ours, command("bare CDK app, one stack", bare, "bare", **lenient)


def plan(config: Path) -> tuple[Command, Command]:
    """Return Kascade's plan and its bare imports."""
    environment = _own_environment()
    ours = [sys.executable, "-m", "kascade.cli", "plan", str(config)]
    floor = [sys.executable, "-c", "import pydantic, yaml"]
    return (
        Command(what="kascade plan", argv=ours, environment=environment),
        Command(what="import pydantic, yaml", argv=floor, environment=environment),
    )


def main() -> None:
    """Print three comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--config", type=Path, default=Path("config/default.yaml"))
    parser.add_argument("--runs", type=int, default=7, help="timed runs of each (default: 7)")
    options = parser.parse_args()
    print(f"{options.config}, medians of {options.runs} runs, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as folder:
        for validation in (True, False):
            print(f"synth, template validation {'on' if validation else 'off'}")
            pair = synth(options.config, Path(folder), validation=validation)
            print(compare(*pair, runs=options.runs))
    print("plan")
    print(compare(*plan(options.config), runs=options.runs))


if __name__ == "__main__":
    main()
