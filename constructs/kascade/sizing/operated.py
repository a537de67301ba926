"""Models whose pods HyperPod's inference operator makes, and who changes these at admission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kascade.catalog.kubernetes import (
    KYVERNO_CHART_VERSION,
    MUTATING_POLICY_VERSION,
    serves_mutating_policies,
)
from kascade.catalog.operator import KNOWN_FAULTS, PROXY_PORT
from kascade.config.model import ServingConfig
from kascade.sizing.plan import AdmissionPlan, ContainerSize, KyvernoPlan, OperatorPlan

if TYPE_CHECKING:
    from kascade.sizing.engines import EngineInput

ROLLOUT_SECONDS: Final = 900
"""On top of loading until the operator calls a deployment failed: images, volumes, a place."""

KYVERNO_NAMESPACE: Final = "kyverno"
KYVERNO_REPLICAS: Final = 3
"""Kyverno's own advice for an installation that must not be missed: while none answers, no pod of
these models is admitted."""

KYVERNO_CPU_MILLIS: Final = 100
KYVERNO_MIB: Final = 256
KYVERNO_LIMIT_MIB: Final = 512
"""Its chart asks for 100 thousandths and 128 MiB and stops at 384; it holds every policy and no
more here, but a restart for want of memory keeps pods from starting."""

KYVERNO_WEBHOOK_PORT: Final = 9443

OPERATOR_CPU_MILLIS: Final = 1500
"""What the add-on asks of system nodes: 500 for the operator (its manager.yaml), the rest an
estimate for KEDA's three pods, two load balancer controllers and a router of each model."""


def check(given: EngineInput, *, can_surge: bool) -> None:
    """Note what mode `operator` cannot do and what deserves a look."""
    model = given.model
    if not can_surge:
        given.refuse(
            "mode",
            f"the operator rolls {model.name} out by adding a pod before it takes one away, and "
            f"every GPU of {given.group.name!r} is taken, so each change would wait for ever. Give "
            "the group one more instance, lower `replicas`, or choose mode: deployment, which "
            "replaces one at a time",
            given.path("replicas"),
            ("instance_groups", given.group_index, "count"),
        )
    given.warn(
        "mode",
        f"{KNOWN_FAULTS['LMCACHE_']}; so the operator's own cache is left off for {model.name}, "
        "and L1, L2 and LMCACHE_* variables are put into its pods at admission",
    )


def plan(given: EngineInput, *, load_seconds: int) -> OperatorPlan:
    """Plan what the operator is asked for."""
    own = given.model.operator
    return OperatorPlan(
        endpoint_name=own.endpoint_name or "",
        invocation_path=own.invocation_path,
        proxy_port=PROXY_PORT,
        strategy=given.config.router.strategy,
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
                cpu_millis=KYVERNO_CPU_MILLIS,
                memory_mib=KYVERNO_MIB,
                memory_limit_mib=KYVERNO_LIMIT_MIB,
            ),
        ),
    )


def system_cpu_millis(config: ServingConfig) -> int:
    """CPU that the operator and Kyverno ask of system nodes."""
    admission = admission_plan(config)
    if admission is None:
        return 0
    kyverno = admission.kyverno
    return OPERATOR_CPU_MILLIS + (
        0 if kyverno is None else kyverno.replicas * kyverno.size.cpu_millis
    )
