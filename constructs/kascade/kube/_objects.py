"""Raw Kubernetes objects: what is written is what is rendered.

cdk8s-plus serialises a patched object through its typed schema once more and silently drops plain
numbers in quantity and port fields, such as a GPU limit or a probe's port. ``cdk8s.ApiObject`` with
a JSON patch keeps every field as it is, zero, false and empty maps included.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import cdk8s
from constructs import Construct

from kascade.errors import KascadeError
from kascade.programs import program_files

Fields = Mapping[str, object]
"""Part of an object, as it stands in YAML."""

_HASH_LENGTH = 10
"""Hex digits of a content hash in a name: 40 bits, and short enough for a 63-character name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """An object's metadata. The name is always explicit: never a hash of the construct path."""

    name: str
    labels: Mapping[str, str]
    namespace: str | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)

    def named(self, name: str) -> Metadata:
        """Return the same metadata under another name."""
        return replace(self, name=name)

    def fields(self) -> dict[str, object]:
        """Write it, leaving out what the object does not have."""
        written: dict[str, object] = {"name": self.name}
        if self.namespace is not None:
            written["namespace"] = self.namespace
        written["labels"] = dict(self.labels)
        if self.annotations:
            written["annotations"] = dict(self.annotations)
        return written


def expect(**plans: tuple[object, type]) -> None:
    """Reject an argument that is another plan than a construct takes.

    Args:
        **plans: What was given and what is wanted, by the name of the argument.

    Raises:
        KascadeError: With one sentence for each.
    """
    found = [
        f"{argument} is a {type(given).__name__}; give a {wanted.__name__}, such as a plan of "
        "kascade.kube.plan_model, kascade.kube.plan_pool or kascade.plan_serving holds"
        for argument, (given, wanted) in plans.items()
        if not isinstance(given, wanted)
    ]
    if found:
        raise KascadeError("\n".join(found))


def add_object(
    scope: Construct, *, api_version: str, kind: str, meta: Metadata, body: Fields
) -> cdk8s.ApiObject:
    """Add one object whose rendered form holds exactly ``meta`` and ``body``.

    Args:
        scope: Parent construct; kind, namespace and name form the id below it.
        api_version: For example ``apps/v1``.
        kind: For example ``Deployment``.
        meta: Name, namespace and labels.
        body: Every other top-level field: spec, data, rules, subjects and so on.

    Returns:
        The object, for dependencies between objects.
    """
    construct_id = "-".join(filter(None, (kind, meta.namespace, meta.name)))
    made = cdk8s.ApiObject(scope, construct_id, api_version=api_version, kind=kind)
    made.add_json_patch(
        cdk8s.JsonPatch.replace("/metadata", meta.fields()),
        *(cdk8s.JsonPatch.add(f"/{key}", value) for key, value in body.items()),
    )
    return made


def add_program(scope: Construct, *, program: str, meta: Metadata) -> None:
    """Add the ConfigMap with the text of a program of ours, which pods mount.

    Args:
        scope: Parent construct.
        program: Name of its package in ``kascade.programs``.
        meta: Name, namespace and labels.
    """
    body = {"data": program_files(program)}
    add_object(scope, api_version="v1", kind="ConfigMap", meta=meta, body=body)


def program_hash(program: str) -> str:
    """Name a program's text, so that another text restarts the pods that mount it."""
    return content_hash(program_files(program))


def pod_template(
    labels: Mapping[str, str], spec: Fields, annotations: Mapping[str, str] | None = None
) -> Fields:
    """Write the template of a workload's pods."""
    meta: dict[str, object] = {"labels": dict(labels)}
    if annotations:
        meta["annotations"] = dict(annotations)
    return {"metadata": meta, "spec": dict(spec)}


def content_hash(content: object) -> str:
    """Name a content, so that another content has another name.

    >>> content_hash({"a": 1}) == content_hash({"a": 1}), content_hash({"a": 1}) == content_hash(2)
    (True, False)
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
