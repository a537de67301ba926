"""HyperPod's agents, rights and device plugins alone, for an EKS cluster of somebody's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import cdk8s

from kascade.catalog.images import IMAGES, health_agent_image
from kascade.catalog.instances import INSTANCES
from kascade.errors import KascadeError
from kascade.kube._labels import labels
from kascade.kube._objects import Metadata, add_object
from kascade.kube.device_plugins import EfaDevicePlugin, NvidiaDevicePlugin
from kascade.kube.hyperpod import HealthMonitoringAgent, HyperPodAccess

NAMESPACE: Final = "aws-hyperpod"
"""The service fixes this name."""


def hyperpod_agents(
    *, region: str, instance_types: Sequence[str], taint_keys: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the objects that HyperPod wants in EKS before it, as ``AppliedManifests`` takes them.

    A deployment of a configuration has the same objects in its chart ``platform``. Images are the
    catalog's: where a cluster cannot reach them, change them in what is returned.

    Args:
        region: Of the cluster; the health agent has a registry in each.
        instance_types: Every type of every group, all from the catalog.
        taint_keys: Of the groups' own taints.

    Raises:
        KascadeError: The region or a type is unknown; with every reason.
    """
    for field, given in (("instance_types", instance_types), ("taint_keys", taint_keys)):
        if isinstance(given, str) or not all(isinstance(item, str) for item in given):
            msg = f"{field} is {given!r}; give a list of strings"
            raise KascadeError(msg)
    found = [
        f"instance type {name!r} is not in the catalog (kascade.catalog.instances), so nobody "
        "knows which device plugins it needs; choose another"
        for name in dict.fromkeys(instance_types)
        if name not in INSTANCES
    ]
    if not instance_types:
        found.append("instance_types is empty; name the types of all groups")
    try:
        image = health_agent_image(region)
    except ValueError as error:
        found.append(str(error))
    if found:
        raise KascadeError("\n".join(found))
    types = tuple(sorted(set(instance_types)))
    with_efa = tuple(name for name in types if INSTANCES[name].efa_interfaces)
    keys = tuple(taint_keys)
    chart = cdk8s.Chart(cdk8s.App(), "agents")
    # The label is the one of AWS's chart.
    meta = Metadata(name=NAMESPACE, labels={**labels({}), "name": NAMESPACE})
    add_object(chart, api_version="v1", kind="Namespace", meta=meta, body={})
    HyperPodAccess(chart, "Access", namespace=NAMESPACE)
    HealthMonitoringAgent(chart, "Agent", namespace=NAMESPACE, image=image, instance_types=types)
    gpu, efa = (IMAGES[key].reference for key in ("nvidia_device_plugin", "efa_device_plugin"))
    NvidiaDevicePlugin(chart, "Nvidia", image=gpu, instance_types=types, taint_keys=keys)
    if with_efa:
        EfaDevicePlugin(chart, "Efa", image=efa, instance_types=with_efa, taint_keys=keys)
    return list(chart.to_json())
