"""Namespaces, closed by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from constructs import Construct

from kascade.errors import KascadeError
from kascade.kube._labels import labels
from kascade.kube._objects import Metadata, add_object
from kascade.kube._policies import add_policy, dns_egress
from kascade.kube.rules import OneHostDirectory
from kascade.plan import Namespaces
from kascade.planning.parts import namespace_error

_SERVING_SECURITY: Final = {
    # No privileged pod, no hostPath, no added capability gets in. "restricted" would reject the
    # engine image, which has no other user than root; the audit log keeps the distance visible
    # (a warning on every apply, for a known reason, teaches people to skip warnings).
    "pod-security.kubernetes.io/enforce": "baseline",
    "pod-security.kubernetes.io/enforce-version": "latest",
    "pod-security.kubernetes.io/audit": "restricted",
    "pod-security.kubernetes.io/audit-version": "latest",
}

_MANAGED_L2_SECURITY: Final = {
    **_SERVING_SECURITY,
    # HyperPod's tiered storage is read through the host's shared memory, a hostPath, which
    # "baseline" rejects whatever it is. There is no level between, so ``OneHostDirectory`` rejects
    # the rest.
    "pod-security.kubernetes.io/enforce": "privileged",
}

_CACHE_SECURITY: Final = {
    # Workers keep their blocks on the node's NVMe (hostPath), and the CSI plugin mounts FUSE into
    # the kubelet's tree: mount(2), /dev/fuse and bidirectional propagation need "privileged".
    "pod-security.kubernetes.io/enforce": "privileged",
    "pod-security.kubernetes.io/enforce-version": "latest",
}


class ClosedNamespaces(Construct):
    """The deployment's namespaces; serving and cache let no traffic through but DNS questions.

    Every component adds what it needs itself, next to the ports it opens.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        namespaces: Namespaces,
        host_directory: str | None = None,
        hyperpod: bool = True,
    ) -> None:
        """Add three namespaces and four policies.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            namespaces: Their names.
            host_directory: The one directory of the host that serving pods may mount.
            hyperpod: Whether HyperPod's own is among them; False where somebody else made it.
        """
        super().__init__(scope, construct_id)
        if host_directory is None:
            _add_namespace(self, namespaces.serving, _SERVING_SECURITY)
        else:
            _add_namespace(self, namespaces.serving, _MANAGED_L2_SECURITY)
            OneHostDirectory(
                self, "OneHostDirectory", namespace=namespaces.serving, path=host_directory
            )
        _add_namespace(self, namespaces.cache, _CACHE_SECURITY)
        # The label is the one of AWS's chart. No Pod Security level: the health agent mounts host
        # paths, and the service puts pods of its own here.
        if hyperpod:
            _add_namespace(self, namespaces.hyperpod, {"name": namespaces.hyperpod})
        for namespace in (namespaces.serving, namespaces.cache):
            _close(self, namespace)


class ClosedNamespace(Construct):
    """One namespace that lets no traffic through but DNS questions, for parts of your own choice.

    Engines, routers and pools bring the NetworkPolicies that they need themselves. A namespace that
    exists already does as well, as long as its Pod Security level admits their pods.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, privileged: bool = False
    ) -> None:
        """Add the namespace and two policies.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            name: Of the namespace.
            privileged: True admits pods that mount the host's directories, as Curvine's do.
                By default Pod Security level ``baseline`` is enforced.

        Raises:
            KascadeError: The name is none that Kubernetes takes.
        """
        super().__init__(scope, construct_id)
        if (problem := namespace_error(name)) is not None:
            raise KascadeError(problem)
        _add_namespace(self, name, _CACHE_SECURITY if privileged else _SERVING_SECURITY)
        _close(self, name)


def _add_namespace(scope: Construct, name: str, extra: Mapping[str, str]) -> None:
    add_object(
        scope,
        api_version="v1",
        kind="Namespace",
        meta=Metadata(name=name, labels={**labels({}), **extra}),
        body={},
    )


def _close(scope: Construct, namespace: str) -> None:
    add_policy(
        scope,
        meta=Metadata(name="default-deny", namespace=namespace, labels=labels({})),
        selecting={},
        ingress=[],
        egress=[],
    )
    add_policy(
        scope,
        meta=Metadata(name="allow-dns", namespace=namespace, labels=labels({})),
        selecting={},
        egress=[dns_egress()],
    )
