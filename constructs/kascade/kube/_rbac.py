"""ServiceAccounts, roles and bindings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from constructs import Construct

from kascade.kube._objects import Fields, Metadata, add_object

_API: Final = "rbac.authorization.k8s.io/v1"
_GROUP: Final = "rbac.authorization.k8s.io"


def add_service_account(scope: Construct, *, meta: Metadata, automount: bool = False) -> None:
    """Add a ServiceAccount.

    Args:
        scope: Parent construct.
        meta: Name, namespace and labels.
        automount: False hands the token only to pods that ask for it themselves; True keeps
            Kubernetes' default, for accounts whose pods are written by others.
    """
    add_object(
        scope,
        api_version="v1",
        kind="ServiceAccount",
        meta=meta,
        body={} if automount else {"automountServiceAccountToken": False},
    )


def account(meta: Metadata) -> Fields:
    """Subject: the ServiceAccount of this name and namespace."""
    return {"kind": "ServiceAccount", "name": meta.name, "namespace": meta.namespace}


def user(name: str) -> Fields:
    """Subject: a user name that an EKS access entry maps to."""
    return {"apiGroup": _GROUP, "kind": "User", "name": name}


def rule(
    groups: Sequence[str],
    resources: Sequence[str],
    verbs: Sequence[str],
    names: Sequence[str] = (),
) -> Fields:
    """One policy rule; ``names`` narrows it to single objects."""
    written: dict[str, object] = {"apiGroups": list(groups), "resources": list(resources)}
    if names:
        written["resourceNames"] = list(names)
    written["verbs"] = list(verbs)
    return written


def add_role(
    scope: Construct,
    *,
    meta: Metadata,
    rules: Sequence[Fields],
    subjects: Sequence[Fields],
    binding_name: str | None = None,
) -> None:
    """Add a role and its binding; cluster-wide where the metadata has no namespace."""
    prefix = "Cluster" if meta.namespace is None else ""
    add_object(
        scope, api_version=_API, kind=f"{prefix}Role", meta=meta, body={"rules": list(rules)}
    )
    add_object(
        scope,
        api_version=_API,
        kind=f"{prefix}RoleBinding",
        meta=meta.named(binding_name or meta.name),
        body={
            "roleRef": {"apiGroup": _GROUP, "kind": f"{prefix}Role", "name": meta.name},
            "subjects": list(subjects),
        },
    )
