"""Kubernetes objects, applied by CloudFormation one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from kascade.errors import KascadeError

KubernetesObject = Mapping[str, Any]
"""One rendered object: what one YAML document holds."""

MAX_MANIFEST_BYTES: Final = 250_000
"""A custom resource's event may hold 262,144 bytes; the rest is for the other properties."""

MAX_STACK_RESOURCES: Final = 480
"""CloudFormation's limit is 500; the rest is for what stands beside the manifests."""

MAX_TEMPLATE_BYTES: Final = 950_000
"""CloudFormation's limit is 1,000,000; the rest is for what stands beside the manifests."""

_LINE_OVERHEAD, _RESOURCE_OVERHEAD = 9, 850
"""Bytes a template needs around a line of a manifest, and around a manifest; measured."""

_SERVICE_TIMEOUT_SECONDS: Final = 960
"""The kubectl function gives up after 900 s; without this CloudFormation waits for an hour."""

_JOB_TIMEOUT: Final = cdk.Duration.minutes(10)
"""A Job may wait for its image and an EBS volume; the kubectl function ends after 15 minutes."""

MAX_AT_ONCE: Final = 4
"""Objects that are applied at the same time. Each takes two functions, one that calls and one that
applies, and a new account may run ten. The second is rejected beyond that, and CDK's framework
gives up after two more tries. Two of the ten are left for another resource of the same stack."""

_WAVES: Final = ("ScopeApplied", "SettingsApplied", "Applied")
"""The barriers of a chart, in order."""

_SCOPE_KINDS: Final = frozenset(
    {
        "APIService",
        "CSIDriver",
        "ClusterPolicy",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "IngressClass",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingPolicy",
        "Namespace",
        "PersistentVolume",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
_WORKLOAD_KINDS: Final = frozenset(
    {
        "CronJob",
        "DaemonSet",
        "Deployment",
        "InferenceEndpointConfig",
        "Job",
        "Pod",
        "ReplicaSet",
        "StatefulSet",
    }
)


class ManifestError(KascadeError):
    """Kubernetes objects that CloudFormation could not carry."""


class AppliedManifests(Construct):
    """The objects of one chart, each as a resource of its own.

    What is applied equals the manifests on disk: no label is added. The template holds it line
    by line, so that ``cdk diff`` shows the changed line and three around it. An object that
    leaves the chart leaves the cluster, whatever its kind. docs/decisions/0003 compares this
    with one resource per chart.

    Objects are applied in three waves: namespaces and what else has no namespace; accounts,
    rights, settings, claims, services; then whatever starts pods. Of one wave ``MAX_AT_ONCE``
    objects are applied at once, each by two Lambda invocations: each object waits for the one that
    stands so many places before it. A deletion goes the same way backwards. Nothing waits for
    readiness, since there may be no node yet; but a Job makes something that others need, so it is
    awaited after its whole chart.

    Attributes:
        barrier: Complete once all objects are applied and all Jobs have succeeded. Whatever comes
            later depends on it alone.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster | eks.Cluster,
        objects: Sequence[KubernetesObject],
    ) -> None:
        super().__init__(scope, construct_id)
        self._cluster = cast("eks.ICluster", cluster)
        _check_objects(construct_id, objects)
        check_stack_size(construct_id, {construct_id: objects})
        waves: dict[str, list[eks.KubernetesManifest]] = {name: [] for name in _WAVES}
        jobs: list[eks.KubernetesObjectValue] = []
        seen: set[str] = set()
        for item in objects:
            name = object_id(item)
            if name in seen:
                msg = (
                    f"Chart {construct_id} holds two objects {name}; kind, namespace and name "
                    f"must differ, or one would overwrite the other. Rename one of them."
                )
                raise ManifestError(msg)
            seen.add(name)
            manifest = self._apply(name, item)
            waves[_wave(item)].append(manifest)
            if item["kind"] == "Job":
                jobs.append(self._watch_job(name, item))

        # A wait condition handle does nothing and costs nothing. With one after each wave, an
        # object that comes or goes changes one list of dependencies, not that of every later one.
        barriers: list[cdk.CfnWaitConditionHandle] = []
        for name, manifests in waves.items():
            barrier = cdk.CfnWaitConditionHandle(self, name)
            barrier.node.add_dependency(*manifests, *barriers[-1:])
            for manifest in manifests:
                manifest.node.add_dependency(*barriers[-1:])
            _a_few_at_once(manifests)
            barriers.append(barrier)
        self.barrier = self._await(jobs, barriers[-1])

    def _await(
        self, jobs: Sequence[eks.KubernetesObjectValue], applied: cdk.CfnWaitConditionHandle
    ) -> cdk.CfnWaitConditionHandle:
        """Let Jobs be awaited once all is applied: one may wait for a server of the same wave."""
        if not jobs:
            return applied
        done = cdk.CfnWaitConditionHandle(self, "Done")
        for job in jobs:
            job.node.add_dependency(applied)
        _a_few_at_once(jobs)
        done.node.add_dependency(*jobs)
        return done

    def _watch_job(self, name: str, item: KubernetesObject) -> eks.KubernetesObjectValue:
        return eks.KubernetesObjectValue(
            self,
            f"{name}-Succeeded",
            cluster=self._cluster,
            object_type="job",
            object_name=item["metadata"]["name"],
            object_namespace=item["metadata"]["namespace"],
            json_path=".status.succeeded",
            timeout=_JOB_TIMEOUT,
        )

    def _apply(self, name: str, item: KubernetesObject) -> eks.KubernetesManifest:
        lines = manifest_lines(item)
        if (size := sum(map(len, lines))) > MAX_MANIFEST_BYTES:
            msg = (
                f"{name} is {size:,} bytes as JSON; a manifest may have {MAX_MANIFEST_BYTES:,}. "
                f"Split it into several objects."
            )
            raise ManifestError(msg)
        manifest = eks.KubernetesManifest(
            self,
            name,
            cluster=self._cluster,
            manifest=[item],
            overwrite=True,  # a create that failed half-way is repeated, not rejected
            prune=False,  # or a label would be added to each object
        )
        resource = cast("cdk.CfnResource", manifest.node.default_child)
        resource.add_property_override("Manifest", {"Fn::Join": ["", lines]})
        resource.add_property_override("ServiceTimeout", _SERVICE_TIMEOUT_SECONDS)
        return manifest


def _a_few_at_once(resources: Sequence[Construct]) -> None:
    """Let each wait for the one ``MAX_AT_ONCE`` places before it.

    One more in the middle changes what ``MAX_AT_ONCE`` others wait for, and of none what it is.
    """
    for earlier, later in zip(resources, resources[MAX_AT_ONCE:], strict=False):
        later.node.add_dependency(earlier)


def manifest_lines(item: KubernetesObject) -> list[str]:
    r"""Write an object as JSON, cut into the lines a reader expects.

    That is one for each key, each element, and each line of a file inside a ConfigMap; brackets
    stand with their neighbours, as dashes do in YAML. Joined without a separator the lines are
    the JSON again. ASCII only, since CloudFormation answers with question marks for anything else.

    >>> for line in manifest_lines({"kind": "ConfigMap", "data": {"a.toml": "x = 1\ny = 2"}}):
    ...     print(line)
    [{"kind": "ConfigMap",
      "data": {
       "a.toml": "x = 1\n
    y = 2"}}]
    """
    lines: list[str] = []
    for line in json.dumps([item], indent=1).split("\n"):
        if lines and (closes := line.strip()).strip("]},") == "":
            lines[-1] += closes
        elif lines and lines[-1].strip() in {"[", "{", "[{"}:
            lines[-1] += line.lstrip()
        else:
            lines.append(line)
    return [piece for line in lines for piece in re.split(r"(?<=\\n)", line) if piece]


def _check_objects(chart: str, objects: Sequence[KubernetesObject]) -> None:
    """Reject what is no object of Kubernetes, as YAML of somebody's may hold.

    Raises:
        ManifestError: With a sentence for each.
    """
    if not isinstance(objects, list | tuple):
        msg = f"Chart {chart} is given a {type(objects).__name__}; give a list of objects."
        raise ManifestError(msg)
    found = [
        f"objects[{place}] {why}"
        for place, item in enumerate(objects)
        if (why := _no_object(item)) is not None
    ]
    if found:
        raise ManifestError(f"Chart {chart}: " + "; ".join(found) + ".")


def _no_object(item: object) -> str | None:
    if not isinstance(item, Mapping):
        return f"is {item!r}; an object is a mapping, so take out empty documents"
    missing = [field for field in ("apiVersion", "kind") if not isinstance(item.get(field), str)]
    metadata = item.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        missing.append("metadata.name")
    elif item.get("kind") == "Job" and not metadata.get("namespace"):
        missing.append("metadata.namespace, by which a Job is awaited")
    if missing:
        return f"has no {' and no '.join(missing)}; add it"
    try:
        json.dumps(item, allow_nan=False)
    except (TypeError, ValueError) as error:
        return f"is no JSON ({error}); put dates and the like in quotes"
    return None


def object_id(item: KubernetesObject) -> str:
    """Name an object within its chart.

    >>> object_id({"kind": "Service", "metadata": {"name": "router", "namespace": "serving"}})
    'Service-serving-router'
    >>> object_id({"kind": "Namespace", "metadata": {"name": "serving"}})
    'Namespace-serving'
    """
    metadata = item.get("metadata") or {}
    kind, name = item.get("kind"), metadata.get("name")
    if not kind or not name:
        msg = (
            f"An object needs a kind and a metadata.name to be applied; given kind={kind!r}, "
            f"name={name!r}."
        )
        raise ManifestError(msg)
    return "-".join(str(part) for part in (kind, metadata.get("namespace"), name) if part)


def check_stack_size(
    stack: str,
    charts: Mapping[str, Sequence[KubernetesObject]],
    *,
    most_bytes: int = MAX_TEMPLATE_BYTES,
) -> None:
    """Reject charts that make more resources than one stack may hold.

    Args:
        stack: Name of the stack.
        charts: The objects of each chart.
        most_bytes: Of the template. The CDK warns at 800,000, which a strict synth rejects.

    Raises:
        ManifestError: With the largest chart, since that is where to start.
    """
    sizes = {name: _resources(objects) for name, objects in charts.items()}
    if (total := sum(sizes.values())) > MAX_STACK_RESOURCES:
        msg = (
            f"{stack} would hold {total} resources from {len(sizes)} charts{_largest(sizes)}; a "
            f"stack may hold {MAX_STACK_RESOURCES}. Spread the models over several deployments."
        )
        raise ManifestError(msg)
    weights = {
        name: sum(_template_bytes(item) for item in objects) for name, objects in charts.items()
    }
    if (weight := template_weight(charts)) > most_bytes:
        msg = (
            f"The template of {stack} would be about {weight:,} bytes from {len(weights)} "
            f"charts{_largest(weights)}; a template may have {most_bytes:,}. Spread the "
            f"models over several deployments."
        )
        raise ManifestError(msg)


def template_weight(charts: Mapping[str, Sequence[KubernetesObject]]) -> int:
    """Return about how many bytes of a template some charts take."""
    return sum(_template_bytes(item) for objects in charts.values() for item in objects)


def _template_bytes(item: KubernetesObject) -> int:
    lines = manifest_lines(item)
    return _RESOURCE_OVERHEAD + sum(len(json.dumps(line)) + _LINE_OVERHEAD for line in lines)


def _largest(sizes: Mapping[str, int]) -> str:
    name = max(sizes, key=lambda key: sizes[key])
    return f" (the largest is {name} with {sizes[name]:,})"


def _wave(item: KubernetesObject) -> str:
    scope, settings, workloads = _WAVES
    if item["kind"] in _SCOPE_KINDS:
        return scope
    return workloads if item["kind"] in _WORKLOAD_KINDS else settings


def _resources(objects: Sequence[KubernetesObject]) -> int:
    """Resources of one chart: its objects, a watch on each Job, and the barriers."""
    jobs = len([item for item in objects if item.get("kind") == "Job"])
    return len(objects) + jobs + len(_WAVES) + min(1, jobs)
