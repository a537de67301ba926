"""EKS add-ons that come with a feature: which, in which version, and what they take."""

from __future__ import annotations

from typing import Final

from kascade.catalog.addons import (
    CERT_MANAGER,
    FEATURE_ADDONS,
    FSX_CSI,
    INFERENCE,
    INFERENCE_POD_SLOTS,
    INFERENCE_VERSION,
    METRICS_SERVER,
    OBSERVABILITY,
    OPERATOR_ROLE_PREFIX,
    TASK_GOVERNANCE,
    TASK_GOVERNANCE_VERSION,
    TLS_BUCKET_PREFIX,
    TRAINING_OPERATOR,
)
from kascade.config.blocks import ServingConfig
from kascade.errors import Problem
from kascade.plan import (
    AddonPlan,
    FeaturesPlan,
    InferenceAddonPlan,
    ObservabilityAddonPlan,
)
from kascade.units import counted

SYSTEM_MAX_PODS: Final = 110
"""Of each type that system nodes may have, with prefix delegation."""

SYSTEM_DAEMONS: Final = 5
"""On every node: CNI, kube-proxy, Pod Identity agent, EBS and Curvine's CSI."""

BASE_PODS: Final = 5
"""CoreDNS twice, the EBS controller twice, Curvine's CSI controller."""

DEPENDENCY_PODS: Final = 7
"""cert-manager's three, metrics-server twice, the FSx controller twice."""

DEPENDENCY_CPU_MILLICORES: Final = 200
"""metrics-server asks for 100 twice; cert-manager and the FSx controller ask for little or nothing
(their charts), for which the operator's own estimate has room."""


def operator_managed(config: ServingConfig) -> bool:
    """Whether some model's pods are made by HyperPod's inference operator."""
    return any(model.mode == "operator" for model in config.models)


def features_plan(config: ServingConfig) -> FeaturesPlan | None:
    """Plan the add-ons of a configuration's features; None where it has no such feature."""
    if config.kubernetes.existing is not None:
        return None  # its owner's
    wanted = config.kubernetes.addons
    pinned = FEATURE_ADDONS.get(config.kubernetes.version, {})

    def addon(name: str, version: str | None = None) -> AddonPlan:
        return AddonPlan(
            name=name, version=version or pinned.get(name), needs_nodes=True, configuration={}
        )

    inference = operator_managed(config)
    dependencies: list[str] = []
    if inference or wanted.training_operator:
        dependencies.append(CERT_MANAGER)
    if inference:
        dependencies += [METRICS_SERVER, FSX_CSI]
    plan = FeaturesPlan(
        dependencies=tuple(addon(name) for name in dependencies),
        inference=InferenceAddonPlan(
            addon=addon(INFERENCE, INFERENCE_VERSION),
            # IAM is one for all regions, and a role's name is 64 characters at most: 20 of a
            # deployment's name and 14 of the longest region's leave room for two.
            role_name=f"{OPERATOR_ROLE_PREFIX}-{config.name}-{config.region}",
            tls_bucket=f"{TLS_BUCKET_PREFIX}{config.name}",
        )
        if inference
        else None,
        task_governance=addon(TASK_GOVERNANCE, TASK_GOVERNANCE_VERSION)
        if wanted.task_governance
        else None,
        training_operator=addon(TRAINING_OPERATOR) if wanted.training_operator else None,
        observability=_observability(wanted.observability_workspace_arn, addon(OBSERVABILITY)),
    )
    nothing = FeaturesPlan(
        dependencies=(),
        inference=None,
        task_governance=None,
        training_operator=None,
        observability=None,
    )
    return None if plan == nothing else plan


def _observability(arn: str | None, addon: AddonPlan) -> ObservabilityAddonPlan | None:
    if arn is None:
        return None
    region, workspace = arn.split(":")[3], arn.rpartition("/")[2]
    return ObservabilityAddonPlan(
        addon=addon,
        workspace_arn=arn,
        workspace_endpoint=f"https://aps-workspaces.{region}.amazonaws.com/workspaces/{workspace}/",
    )


def pod_slots_fit(config: ServingConfig, *, pods: int) -> Problem | None:
    """Reject system nodes without a slot for each pod of the inference add-on.

    Args:
        config: The configuration.
        pods: Pods on system nodes beside daemons, add-ons and the operator: routers, tenant
            gateways, masters, Kyverno.
    """
    if not operator_managed(config):
        return None
    system = config.kubernetes.system_group
    taken = pods + BASE_PODS + DEPENDENCY_PODS
    # One node may be away for an update.
    room = (system.count - 1) * (SYSTEM_MAX_PODS - SYSTEM_DAEMONS - 2)
    if taken + INFERENCE_POD_SLOTS <= room:
        return None
    needed = -(-(taken + INFERENCE_POD_SLOTS) // (SYSTEM_MAX_PODS - SYSTEM_DAEMONS - 2)) + 1
    return Problem(
        path=("kubernetes", "system_group", "count"),
        message=f"got {system.count}; with one node away for an update they have "
        f"{counted(room, 'pod slot')} and {taken} are taken, but HyperPod's inference "
        f"add-on needs {INFERENCE_POD_SLOTS} free. Use {needed} nodes",
        also_reads=(("models",), ("kubernetes", "system_group", "instance_type")),
    )
