"""Rules that the API server itself applies to what it is given (ValidatingAdmissionPolicy).

They are of version v1, which every Kubernetes that HyperPod documents serves (1.30 and later).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from constructs import Construct

from kascade.kube._labels import labels, selector
from kascade.kube._objects import Fields, Metadata, add_object

_API: Final = "admissionregistration.k8s.io/v1"


def _add_rule(
    scope: Construct,
    *,
    name: str,
    namespace: str,
    watched: Fields,
    rules: Sequence[tuple[str, str]],
) -> None:
    """Add a policy for one namespace, and the binding that makes it count.

    Args:
        scope: Parent construct.
        name: Of both objects.
        namespace: The only one it looks at.
        watched: The resource rule of what it looks at.
        rules: Expressions that must hold, each with the sentence of a rejection.
    """
    meta = Metadata(
        name=name, labels=labels(selector(name="admission", instance=name, component="admission"))
    )
    space = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    add_object(
        scope,
        api_version=_API,
        kind="ValidatingAdmissionPolicy",
        meta=meta,
        body={
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"namespaceSelector": space, "resourceRules": [watched]},
                "validations": [
                    {"expression": expression, "message": sentence}
                    for expression, sentence in rules
                ],
            }
        },
    )
    add_object(
        scope,
        api_version=_API,
        kind="ValidatingAdmissionPolicyBinding",
        meta=meta,
        body={"spec": {"policyName": name, "validationActions": ["Deny"]}},
    )


_OTHER_KINDS: Final = ("initContainers", "ephemeralContainers")


def _each(condition: str) -> str:
    """Ask something of every container of a pod, called ``c``.

    One kind after the other: CEL knows each by a type of its own, and adds no list to another.
    """
    lists = ("object.spec.containers", *(f"object.spec.?{k}.orValue([])" for k in _OTHER_KINDS))
    return " && ".join(f"{each}.all(c, {condition})" for each in lists)


_VOLUMES: Final = "object.spec.?volumes.orValue([])"
_HOST_VOLUMES: Final = f"{_VOLUMES}.filter(v, has(v.hostPath)).map(v, v.name)"
_READ_ONLY: Final = _each(
    f"c.?volumeMounts.orValue([]).all(m, !(m.name in {_HOST_VOLUMES}) "
    "|| m.?readOnly.orValue(false))"
)
_OWN_SPACES: Final = " && ".join(
    f"!object.spec.?{field}.orValue(false)" for field in ("hostNetwork", "hostPID", "hostIPC")
)
_SECCOMP: Final = " && ".join(
    (
        "object.spec.?securityContext.?seccompProfile.?type.orValue('') != 'Unconfined'",
        _each("c.?securityContext.?seccompProfile.?type.orValue('') != 'Unconfined'"),
    )
)

_REST_OF_BASELINE: Final = (
    (_OWN_SPACES, "hostNetwork, hostPID and hostIPC are not allowed in this namespace"),
    (
        _each("!c.?securityContext.?privileged.orValue(false)"),
        "privileged containers are not allowed in this namespace",
    ),
    (
        _each("c.?securityContext.?capabilities.?add.orValue([]).size() == 0"),
        "no container of this namespace may add capabilities",
    ),
    (
        _each("c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0)"),
        "host ports are not allowed in this namespace",
    ),
    (
        _each("c.?securityContext.?procMount.orValue('Default') == 'Default'"),
        "another procMount than Default is not allowed in this namespace",
    ),
    (_SECCOMP, "seccomp must not be Unconfined in this namespace"),
    (
        "object.spec.?securityContext.?sysctls.orValue([]).size() == 0",
        "no pod of this namespace may set sysctls",
    ),
)
"""Baseline's rules on SELinux, AppArmor and Windows are left out: they matter to no node here."""


class OneHostDirectory(Construct):
    """What Pod Security level "baseline" rejects, but for one directory of the host, read-only.

    Not its rules on SELinux, AppArmor and Windows, which matter to no node here.
    """

    def __init__(self, scope: Construct, construct_id: str, *, namespace: str, path: str) -> None:
        """Add the rule.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            namespace: Whose pods it looks at.
            path: The directory.
        """
        super().__init__(scope, construct_id)
        rules = (
            (
                f"{_VOLUMES}.all(v, !has(v.hostPath) || v.hostPath.path == '{path}')",
                f"a pod of this namespace may mount {path} of its host and nothing else",
            ),
            (_READ_ONLY, f"{path} may only be mounted with readOnly: true"),
            *_REST_OF_BASELINE,
        )
        _add_rule(
            self,
            name=f"{namespace}-one-host-directory",
            namespace=namespace,
            watched={
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["pods", "pods/ephemeralcontainers"],
            },
            rules=rules,
        )


class MastersFixed(Construct):
    """Rejects another number of Curvine masters on a pool that exists.

    The members of their Raft group are written into each one's journal. The lock file of the
    configuration says so earlier and in better words; this stops who works past it.
    """

    def __init__(self, scope: Construct, construct_id: str, *, namespace: str, name: str) -> None:
        """Add the rule.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            namespace: Of the masters.
            name: Of their StatefulSet.
        """
        super().__init__(scope, construct_id)
        _add_rule(
            self,
            name=f"{namespace}-masters-fixed",
            namespace=namespace,
            watched={
                "apiGroups": ["apps"],
                "apiVersions": ["v1"],
                "operations": ["UPDATE"],
                "resources": ["statefulsets", "statefulsets/scale"],
                "resourceNames": [name],
            },
            rules=(
                (
                    "object.spec.?replicas.orValue(1) == oldObject.spec.?replicas.orValue(1)",
                    "the number of Curvine masters is fixed for the life of the pool",
                ),
            ),
        )
