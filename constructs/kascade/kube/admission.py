"""What admission puts into the operator's pods: tiers L1 and L2, and the way to them.

HyperPod's inference operator renders the pods of an InferenceEndpointConfig itself and again
whenever it likes, so a patch of its Deployment does not last. A policy that changes each pod while
the API server admits it does. It is one CEL text: Kubernetes reads it from a
MutatingAdmissionPolicy, Kyverno from a MutatingPolicy, see docs/decisions/0014.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from constructs import Construct

from kascade.kube._cel import add, cel, pointer, unless
from kascade.kube._labels import (
    ENGINE_LABEL,
    INSTANCE_GROUP_LABEL,
    OPERATOR_LABEL,
    engine_selector,
    labels,
)
from kascade.kube._objects import Fields, Metadata, add_object
from kascade.kube._pods import SHM_MOUNT, plain_env, tolerations
from kascade.kube.engine import engine_volumes
from kascade.kube.engine_program import HEALTH_ARG, PROGRAM_MOUNT, gpu_checks
from kascade.kube.l2.attachment import Attachment
from kascade.kube.lmcache import SHARED_ENV, server_container
from kascade.kube.vllm import TRANSFER_FLAG, transfer_arg
from kascade.kube.weights import weights_mount
from kascade.plan import AdmissionPlan, EnginePlan

_CREATED_PODS: Final[Fields] = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods"],
    # Said, or the server's default in this list would make every apply a change.
    "scope": "Namespaced",
}

_KYVERNO_SECONDS: Final = 10
"""How long the API server waits for Kyverno; a rejected pod is tried again by its ReplicaSet."""


class CascadeAdmission(Construct):
    """The policy that changes one model's pods, and the one that rejects those it did not reach.

    The second is a ValidatingAdmissionPolicy, which every supported API server evaluates itself.
    It closes what no ``failurePolicy`` can: the moment between a policy's making and its taking
    effect, Kyverno's webhooks gone with Kyverno, a container that the first policy does not know.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        engine: EnginePlan,
        l2: Attachment | None,
        admission: AdmissionPlan,
    ) -> None:
        """Add the policies.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            engine: The plan's slice.
            l2: How its LMCache server reaches L2.
            admission: Who evaluates the first policy.
        """
        super().__init__(scope, construct_id)
        name = f"{engine.namespace}-{engine.name}-cascade"
        written = {**labels(engine_selector(engine.name)), ENGINE_LABEL: engine.name}
        meta = Metadata(name=name, labels=written)
        if admission.evaluator == "kyverno":
            add_object(
                self,
                api_version="policies.kyverno.io/v1",
                kind="MutatingPolicy",
                meta=meta,
                body={"spec": {**mutation(engine, l2), **_KYVERNO_ONLY}},
            )
        else:
            _add_bound(self, "MutatingAdmissionPolicy", meta, mutation(engine, l2), {})
        _add_bound(
            self,
            "ValidatingAdmissionPolicy",
            meta.named(f"{name}-proof"),
            validation(engine, policy=name),
            {"validationActions": ["Deny"]},
        )


_KYVERNO_ONLY: Final[Fields] = {
    # Pods alone: the operator's Deployments and ReplicaSets are its own affair.
    "autogen": {"podControllers": {"controllers": []}},
    "evaluation": {"admission": {"enabled": True}, "background": {"enabled": False}},
    "webhookConfiguration": {"timeoutSeconds": _KYVERNO_SECONDS},
}


def _add_bound(scope: Construct, kind: str, meta: Metadata, spec: Fields, binding: Fields) -> None:
    api = "admissionregistration.k8s.io/v1"
    add_object(scope, api_version=api, kind=kind, meta=meta, body={"spec": spec})
    add_object(
        scope,
        api_version=api,
        kind=f"{kind}Binding",
        meta=meta,
        body={"spec": {"policyName": meta.name, **binding}},
    )


def operator_selector(engine: EnginePlan) -> dict[str, str]:
    """Label by which the operator marks the pods of an endpoint: the endpoint's own name."""
    return {OPERATOR_LABEL: engine.name}


def _constraints(engine: EnginePlan) -> Fields:
    """Pods of this model in the serving namespace, while they are being made."""
    return {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": engine.namespace}},
        "objectSelector": {"matchLabels": operator_selector(engine)},
        "resourceRules": [_CREATED_PODS],
    }


def mutation(engine: EnginePlan, l2: Attachment | None) -> Fields:
    """Specification of the first policy, in the fields that both of its kinds have.

    ``Fail``: a pod that was let in without the cascade would stay without it for its whole life,
    while a rejected one is made again by its ReplicaSet within minutes.
    """
    return {
        "failurePolicy": "Fail",
        # Another webhook may add containers; a second pass changes nothing that is there.
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": _constraints(engine),
        # A pod without the worker is left to the second policy, which says so in a sentence.
        "matchConditions": [{"name": "has-the-worker", "expression": _has_worker(engine)}],
        "variables": [
            {
                "name": "index",
                "expression": "object.spec.containers.map(c, c.image)"
                f".indexOf({cel(engine.image)})",
            },
            {"name": "worker", "expression": "object.spec.containers[variables.index]"},
            {
                "name": "path",
                "expression": '"/spec/containers/" + string(variables.index)',
            },
        ],
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": " +\n".join(_operations(engine, l2))},
            }
        ],
    }


def _has_worker(engine: EnginePlan) -> str:
    """Whether the pod runs the engine's image; the operator's own sidecars have others."""
    return f"object.spec.containers.exists(c, c.image == {cel(engine.image)})"


def _operations(engine: EnginePlan, l2: Attachment | None) -> Iterable[str]:
    guard = [] if l2 is None else [l2.guard]
    yield from _set_keys("metadata", "labels", _pod_labels(engine))
    yield from _set_keys("spec", "nodeSelector", {INSTANCE_GROUP_LABEL: engine.group})
    # A Service called "vllm" would set VLLM_PORT, which vLLM reads as a setting.
    yield f"[{add(cel('/spec/enableServiceLinks'), value=False)}]"
    pod = "object.spec"
    place = '"/spec/{}"'.format
    yield from _add_named(
        pod,
        "initContainers",
        place,
        [*gpu_checks(engine), *guard, server_container(engine, l2)],
        key="name",
    )
    yield from _add_named(pod, "volumes", place, engine_volumes(engine, l2), key="name")
    # One of the key alone, whatever the effect: the API server may have added one of an effect.
    yield unless("has(object.spec.tolerations)", add(place("tolerations"), []))
    for toleration in tolerations(engine.taint_keys):
        yield unless(
            "object.spec.?tolerations.orValue([]).exists(x, "
            f'x.?key.orValue("") == {cel(toleration["key"])} && x.?effect.orValue("") == "")',
            add(place("tolerations/-"), toleration),
        )
    worker = "variables.worker"
    inside = 'variables.path + "/{}"'.format
    # The operator strips LMCACHE_ variables of an endpoint, so those have to come this way.
    yield from _add_named(worker, "env", inside, plain_env(SHARED_ENV), key="name")
    mounts = [SHM_MOUNT, weights_mount(engine), PROGRAM_MOUNT]
    yield from _add_named(worker, "volumeMounts", inside, mounts, key="mountPath")
    yield unless(f"has({worker}.args)", add(inside("args"), []))
    yield unless(
        f"{worker}.?args.orValue([]).exists(a, a == {cel(HEALTH_ARG)})",
        add(inside("args/-"), HEALTH_ARG),
    )
    yield unless(
        f"{worker}.?args.orValue([]).exists(a, a.startsWith({cel(TRANSFER_FLAG)}))",
        add(inside("args/-"), transfer_arg(engine)),
    )


def _pod_labels(engine: EnginePlan) -> dict[str, str]:
    """Labels of our own pods, by which others find an engine; the operator looks at its own."""
    return {**labels(engine_selector(engine.name)), ENGINE_LABEL: engine.name}


def _set_keys(parent: str, field: str, values: dict[str, str]) -> Iterable[str]:
    """Set keys of a map, which may not be there yet."""
    yield unless(f"has(object.{parent}.{field})", add(f'"/{parent}/{field}"', {}))
    for key, value in values.items():
        path = cel(f"/{parent}/{field}/{pointer(key)}")
        yield f"[{add(path, value)}]"


def _add_named(
    parent: str, field: str, path: object, items: Iterable[Fields], *, key: str
) -> Iterable[str]:
    """Add items to a list, which may not be there yet, but for those whose key it has."""
    assert callable(path)  # noqa: S101 - a format
    yield unless(f"has({parent}.{field})", add(path(field), []))
    for item in items:
        there = f'{parent}.?{field}.orValue([]).exists(x, x.?{key}.orValue("") == {cel(item[key])})'
        yield unless(there, add(path(f"{field}/-"), item))


def validation(engine: EnginePlan, *, policy: str) -> Fields:
    """Specification of the second policy: no pod of this model without its cascade."""
    server = (
        f"object.spec.?initContainers.orValue([]).exists(c, c.name == "
        f"{cel('lmcache')} && c.image == {cel(engine.image)} && "
        f'c.?restartPolicy.orValue("") == "Always")'
    )
    reached = (
        f"object.spec.containers.exists(c, c.image == {cel(engine.image)} && "
        f"c.?args.orValue([]).filter(a, a.startsWith({cel(TRANSFER_FLAG)})) == "
        f"[{cel(transfer_arg(engine))}])"
    )
    return {
        "failurePolicy": "Fail",
        "matchConstraints": _constraints(engine),
        "validations": [
            {
                "expression": server,
                "message": f"a pod of {engine.name} has no LMCache server of its own: the policy "
                f"{policy} did not reach it. Is the policy there, and does Kyverno or the API "
                "server evaluate it?",
            },
            {
                "expression": reached,
                "message": f"no container of a pod of {engine.name} has the image {engine.image} "
                f"and exactly the {TRANSFER_FLAG} of {policy}",
            },
        ],
    }
