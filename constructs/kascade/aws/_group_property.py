"""An instance group as CloudFormation writes it."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_sagemaker as sagemaker

from kascade.aws.instance_group import FsxLustre, FsxOpenZfs, InstanceGroup, SoftwareUpdates

_Cluster = sagemaker.CfnCluster


def group_property(  # noqa: PLR0913 - what a group takes from its cluster
    name: str,
    group: InstanceGroup,
    *,
    role_arn: str,
    source_uri: str,
    on_create: str,
    vpc_config: sagemaker.CfnCluster.VpcConfigProperty | None,
) -> sagemaker.CfnCluster.ClusterInstanceGroupProperty:
    """Write a group.

    Args:
        name: Its name.
        group: The group, which has no errors.
        role_arn: What its nodes run as.
        source_uri: Where the lifecycle script is.
        on_create: The script's name there.
        vpc_config: Its subnets and security groups, or None for the cluster's.
    """
    instances: dict[str, Any] = {"instance_type": group.instances.types[0]}
    if group.instances.is_choice:
        instances = {
            "instance_requirements": _Cluster.InstanceRequirementsProperty(
                instance_types=list(group.instances.types)
            )
        }
    if group.capacity.kind == "spot":
        # A marker: the type has no field.
        instances["capacity_requirements"] = _Cluster.ClusterCapacityRequirementsProperty(spot={})
    return _Cluster.ClusterInstanceGroupProperty(
        instance_group_name=name,
        instance_count=group.count,
        min_instance_count=group.min_count,
        training_plan_arn=group.capacity.plan_arn,
        execution_role=role_arn,
        threads_per_core=group.threads_per_core,
        life_cycle_config=_Cluster.ClusterLifeCycleConfigProperty(
            source_s3_uri=source_uri, on_create=on_create
        ),
        instance_storage_configs=_storage(group) or None,
        kubernetes_config=_kubernetes(group),
        on_start_deep_health_checks=list(group.deep_health_checks) or None,
        override_vpc_config=vpc_config,
        network_interface=(
            _Cluster.ClusterNetworkInterfaceProperty(interface_type=group.network_interface)
            if group.network_interface is not None
            else None
        ),
        scheduled_update_config=(
            _updates(group.software_updates) if group.software_updates is not None else None
        ),
        **instances,
    )


def _storage(
    group: InstanceGroup,
) -> list[sagemaker.CfnCluster.ClusterInstanceStorageConfigProperty]:
    written = _Cluster.ClusterInstanceStorageConfigProperty
    found = []
    if group.volume_gib is not None:
        key = group.volume_key
        volume = _Cluster.ClusterEbsVolumeConfigProperty(
            volume_size_in_gb=group.volume_gib,
            volume_kms_key_id=key.key_arn if key is not None else None,
        )
        found.append(written(ebs_volume_config=volume))
    if group.root_volume_key is not None:
        # HyperPod takes no size here, and nothing without a key.
        volume = _Cluster.ClusterEbsVolumeConfigProperty(
            root_volume=True, volume_kms_key_id=group.root_volume_key.key_arn
        )
        found.append(written(ebs_volume_config=volume))
    for system in group.file_systems:
        match system:
            case FsxLustre():
                lustre = _Cluster.ClusterFsxLustreConfigProperty(
                    dns_name=system.dns_name,
                    mount_name=system.mount_name,
                    mount_path=system.mount_path,
                )
                found.append(written(fsx_lustre_config=lustre))
            case FsxOpenZfs():
                zfs = _Cluster.ClusterFsxOpenZfsConfigProperty(
                    dns_name=system.dns_name, mount_path=system.mount_path
                )
                found.append(written(fsx_open_zfs_config=zfs))
    return found


def _kubernetes(
    group: InstanceGroup,
) -> sagemaker.CfnCluster.ClusterKubernetesConfigProperty | None:
    if not group.labels and not group.taints:
        return None
    return _Cluster.ClusterKubernetesConfigProperty(
        labels=dict(group.labels) or None,
        taints=[
            _Cluster.ClusterKubernetesTaintProperty(
                key=taint.key, value=taint.value or None, effect=taint.effect
            )
            for taint in group.taints
        ]
        or None,
    )


def _updates(updates: SoftwareUpdates) -> sagemaker.CfnCluster.ScheduledUpdateConfigProperty:
    batch = _Cluster.CapacitySizeConfigProperty(type=updates.batch.kind, value=updates.batch.value)
    return _Cluster.ScheduledUpdateConfigProperty(
        schedule_expression=updates.schedule,
        deployment_config=_Cluster.DeploymentConfigProperty(
            rolling_update_policy=_Cluster.RollingUpdatePolicyProperty(
                maximum_batch_size=batch, rollback_maximum_batch_size=batch
            ),
            wait_interval_in_seconds=updates.wait.to_seconds(),
            auto_rollback_configuration=[
                _Cluster.AlarmDetailsProperty(alarm_name=alarm.alarm_name)
                for alarm in updates.rollback_alarms
            ]
            or None,
        ),
    )
