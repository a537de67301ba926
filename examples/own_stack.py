"""Add a HyperPod cluster to a stack of your own: `cdk synth --app "python examples/own_stack.py"`.

Put HyperPod's agents and the device plugins into the EKS cluster before its nodes come (in
Kascade's own deployments that is the chart `platform`).
"""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.lambda_layer_kubectl_v34 import KubectlV34Layer

from kascade.aws import Capacity, HyperPodCluster, InstanceGroup, Instances

app = cdk.App()
stack = cdk.Stack(app, "OwnStack")
vpc = ec2.Vpc(stack, "Vpc", max_azs=2)
cluster = eks.Cluster(
    stack,
    "Eks",
    vpc=vpc,
    version=eks.KubernetesVersion.V1_34,
    default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
    kubectl_provider_options=eks.KubectlProviderOptions(
        kubectl_layer=KubectlV34Layer(stack, "Kubectl")
    ),
)
hyperpod = HyperPodCluster(stack, "HyperPod", cluster=cluster, vpc=vpc)
hyperpod.add_instance_group("gpu", InstanceGroup(instances=Instances.of("ml.g6e.4xlarge"), count=2))
types = Instances.any_of(["ml.g6e.8xlarge", "ml.g6e.4xlarge"])
hyperpod.add_instance_group(
    "spare", InstanceGroup(instances=types, count=2, capacity=Capacity.spot())
)
app.synth()
