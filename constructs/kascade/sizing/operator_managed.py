"""Models whose pods HyperPod's inference operator makes, and who changes these at admission."""

from __future__ import annotations

from typing import Final

from kascade.catalog.kubernetes import (
    KYVERNO_CHART_VERSION,
    MUTATING_POLICY_VERSION,
    serves_mutating_policies,
)
from kascade.catalog.operator import PROXY_PORT
from kascade.config.blocks import ModelConfig, ServingConfig
from kascade.plan import AdmissionPlan, ContainerSize, KyvernoPlan, OperatorPlan
from kascade.sizing import features

ROLLOUT_SECONDS: Final = 900
"""On top of loading until the operator calls a deployment failed: images, volumes, a place."""

KYVERNO_NAMESPACE: Final = "kyverno"
KYVERNO_REPLICAS: Final = 3
"""Kyverno's own advice for an installation that must not be missed: while none answers, no pod of
these models is admitted."""

KYVERNO_CPU_MILLICORES: Final = 100
KYVERNO_MIB: Final = 256
KYVERNO_LIMIT_MIB: Final = 512
"""Its chart asks for 100 millicores and 128 MiB and stops at 384; it holds every policy and no
more here, but a restart for want of memory keeps pods from starting."""

KYVERNO_WEBHOOK_PORT: Final = 9443

OPERATOR_CPU_MILLICORES: Final = 1500
"""What the add-on asks of system nodes: 500 for the operator (its manager.yaml), the rest an
estimate for KEDA's three pods, two load balancer controllers and a router of each model."""


def operator_plan(model: ModelConfig, *, strategy: str, load_seconds: int) -> OperatorPlan:
    """Plan what the operator is asked for.

    Args:
        model: A model in mode `operator`.
        strategy: Of the operator's router, by AWS's name.
        load_seconds: How long the model may take to load.
    """
    own = model.operator
    return OperatorPlan(
        endpoint_name=own.endpoint_name or "",
        invocation_path=own.invocation_path,
        proxy_port=PROXY_PORT,
        strategy=strategy,
        max_deploy_seconds=load_seconds + ROLLOUT_SECONDS,
        certificate_output=own.certificate_output,
        certificate_arn=own.certificate_arn,
        certificate_domain=own.certificate_domain,
    )


def admission_plan(config: ServingConfig) -> AdmissionPlan | None:
    """Choose who changes the operator's pods; None without a model in its mode."""
    if all(model.mode != "operator" for model in config.models):
        return None
    version = config.kubernetes.version
    since = ".".join(map(str, MUTATING_POLICY_VERSION))
    if serves_mutating_policies(version):
        return AdmissionPlan(
            evaluator="kubernetes",
            reason=f"Kubernetes {version} serves MutatingAdmissionPolicy v1",
            kyverno=None,
        )
    return AdmissionPlan(
        evaluator="kyverno",
        reason=f"Kubernetes {version} serves no MutatingAdmissionPolicy v1; {since} does",
        kyverno=KyvernoPlan(
            namespace=KYVERNO_NAMESPACE,
            chart_repository=config.kubernetes.kyverno.chart_repository,
            chart_version=KYVERNO_CHART_VERSION,
            image_registry=config.kubernetes.kyverno.image_registry,
            replicas=KYVERNO_REPLICAS,
            webhook_port=KYVERNO_WEBHOOK_PORT,
            size=ContainerSize(
                cpu_millicores=KYVERNO_CPU_MILLICORES,
                memory_mib=KYVERNO_MIB,
                memory_limit_mib=KYVERNO_LIMIT_MIB,
            ),
        ),
    )


def system_cpu_millicores(config: ServingConfig) -> int:
    """CPU that the operator and Kyverno ask of system nodes."""
    admission = admission_plan(config)
    if admission is None:
        return 0
    kyverno = admission.kyverno
    return (
        OPERATOR_CPU_MILLICORES
        + features.DEPENDENCY_CPU_MILLICORES
        + (0 if kyverno is None else kyverno.replicas * kyverno.size.cpu_millicores)
    )
