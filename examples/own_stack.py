"""Add a HyperPod cluster to a stack of your own.

HyperPod looks for its agents in EKS while it is being made, so the stack applies them first.
EKS encrypts with a key of AWS's; `secrets_encryption_key` puts one of yours on top.

After `make synth`, which brings Node and the CDK's command line:
    export JSII_NODE=$PWD/.venv/bin/node  # or jsii takes whichever Node the machine has
    .venv/bin/node tools/cdk/node_modules/aws-cdk/bin/cdk synth OwnStack --quiet \
        --app ".venv/bin/python examples/own_stack.py" --output cdk.out/own

To use kubectl, give your role an entry: `cluster.grant_cluster_admin(id, arn)`.
"""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer

from kascade.aws import AppliedManifests, Capacity, HyperPodCluster, InstanceGroup, Instances
from kascade.kube import hyperpod_agents

REGION, TYPES = "us-west-2", ["ml.g6e.8xlarge", "ml.g6e.4xlarge"]
app = cdk.App()
stack = cdk.Stack(app, "OwnStack", env=cdk.Environment(region=REGION))
vpc = ec2.Vpc(stack, "Vpc", max_azs=2)
kubectl = eks.KubectlProviderOptions(kubectl_layer=KubectlV35Layer(stack, "Kubectl"))
cluster = eks.Cluster(
    stack,
    "Eks",
    vpc=vpc,
    version=eks.KubernetesVersion.V1_35,
    default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
    endpoint_access=eks.EndpointAccess.PRIVATE,
    cluster_logging=list(eks.ClusterLoggingTypes),
    kubectl_provider_options=kubectl,
)
agents = hyperpod_agents(region=REGION, instance_types=TYPES)
applied = AppliedManifests(stack, "Agents", cluster=cluster, objects=agents)
hyperpod = HyperPodCluster(stack, "HyperPod", cluster=cluster, vpc=vpc)
hyperpod.resource.node.add_dependency(applied.barrier)
hyperpod.add_instance_group("gpu", InstanceGroup(instances=Instances.of(TYPES[1]), count=2))
spare = InstanceGroup(instances=Instances.any_of(TYPES), count=2, capacity=Capacity.spot())
hyperpod.add_instance_group("spare", spare)
app.synth()
