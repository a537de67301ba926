"""A plan's HyperPod cluster: the plan's words put into those of the construct."""

from __future__ import annotations

from typing import Literal, cast

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from constructs import Construct

from kascade.aws._ids import distinct_ids
from kascade.aws._nag import accept
from kascade.aws.eks import ServingEksCluster
from kascade.aws.hyperpod import HyperPodCluster, HyperPodSettings
from kascade.aws.instance_group import (
    Batch,
    Capacity,
    InstanceGroup,
    Instances,
    SoftwareUpdates,
    Taint,
)
from kascade.aws.lifecycle import LifecycleScript
from kascade.plan import ClusterPlan, InstanceGroupPlan, SoftwareUpdatesPlan


def planned_cluster(
    scope: Construct,
    construct_id: str,
    *,
    plan: ClusterPlan,
    eks: ServingEksCluster,
    lifecycle: LifecycleScript,
) -> HyperPodCluster:
    """Make the cluster of a plan in the home zones of a network."""
    network = eks.network
    cluster = HyperPodCluster(
        scope,
        construct_id,
        cluster=eks.cluster,
        vpc=network.vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=network.home_subnets),
        security_groups=[
            network.node_security_group,
            *(
                ec2.SecurityGroup.from_security_group_id(
                    scope, f"{construct_id}-{name}", name, mutable=False
                )
                for name in plan.security_group_ids
            ),
        ],
        lifecycle=lifecycle,
        cluster_name=plan.hyperpod_name,
        settings=HyperPodSettings(
            node_recovery=cast('Literal["Automatic", "None"]', plan.node_recovery),
            tiered_storage_percentage=plan.tiered_storage_percentage,
        ),
    )
    cluster.resource.node.add_dependency(*eks.ready)
    accept(
        cluster.resource,
        "CloudFormation-Validate::E3644",
        "The validator's list of a type's regions lags AWS's offers, and so does the plan's own, "
        "which is longer: the plan warns of what is in neither.",
    )
    updates = _updates(cluster, plan.software_updates)
    names = {arn: arn.rpartition("/")[2] for arn in plan.volume_keys}
    keys = {
        arn: kms.Key.from_key_arn(cluster, key_id, arn)
        for arn, key_id in distinct_ids("Key", names).items()
    }
    for group in plan.groups:
        subnets = None
        if group.zone is not None:
            subnets = ec2.SubnetSelection(subnets=[network.private_subnet_in(group.zone)])
        cluster.add_instance_group(
            group.name,
            InstanceGroup(
                instances=_instances(group),
                count=group.count,
                min_count=group.min_count,
                capacity=_capacity(group),
                labels=group.labels,
                taints=[_taint(*taint) for taint in group.taints],
                deep_health_checks=group.deep_health_checks,
                volume_gib=group.volume_gib,
                volume_key=keys.get(group.volume_kms_key_arn or ""),
                root_volume_key=keys.get(group.root_volume_kms_key_arn or ""),
                threads_per_core=cast("Literal[1, 2]", group.threads_per_core),
                vpc_subnets=subnets,
                network_interface=cast(
                    'Literal["efa", "efa-only"] | None', group.network_interface
                ),
                software_updates=updates,
            ),
        )
    return cluster


def _instances(group: InstanceGroupPlan) -> Instances:
    if group.other_types:
        return Instances.any_of(group.instance_types)
    return Instances.of(group.instance_type)


def _capacity(group: InstanceGroupPlan) -> Capacity:
    if group.training_plan_arn is not None:
        return Capacity.training_plan(group.training_plan_arn)
    return Capacity.spot() if group.capacity == "spot" else Capacity.on_demand()


def _taint(key: str, value: str, effect: str) -> Taint:
    return Taint(
        key=key,
        value=value,
        effect=cast('Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]', effect),
    )


def _updates(scope: Construct, plan: SoftwareUpdatesPlan | None) -> SoftwareUpdates | None:
    if plan is None:
        return None
    batch = Batch.percentage if plan.batch_is_percentage else Batch.nodes
    return SoftwareUpdates(
        schedule=plan.schedule,
        batch=batch(plan.batch_size),
        wait=cdk.Duration.seconds(plan.wait_seconds),
        rollback_alarms=[
            cloudwatch.Alarm.from_alarm_name(scope, alarm_id, name)
            for name, alarm_id in distinct_ids(
                "Alarm", {name: name for name in plan.rollback_alarms}
            ).items()
        ],
    )
