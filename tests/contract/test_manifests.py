"""The manifests against Kubernetes' own schemas."""

from collections.abc import Callable

import kubernetes_validate

from kascade import ServingPlan
from tools.outputs import Document, Outputs

MANIFEST_BYTES = 250_000
NATIVE_GROUPS = {"apps", "autoscaling", "batch", "policy", "v1"}

Synthesized = Callable[[str], Outputs]


def is_native(document: Document) -> bool:
    """Tell Kubernetes' own objects from custom resources."""
    group = document["apiVersion"].partition("/")[0]
    return group in NATIVE_GROUPS or group.endswith(".k8s.io")


def complaint(document: Document, version: str) -> str | None:
    """Return what the strict schema of that Kubernetes version says against an object."""
    try:
        kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{document['kind']}/{document['metadata']['name']}: {error.message}"
    return None


def test_every_native_object_fits_its_schema(
    synthesized: Synthesized, plan: Callable[[str], ServingPlan], config: str
) -> None:
    version = plan(config).cluster.kubernetes_version
    native = [document for _, document in synthesized(config).objects() if is_native(document)]
    assert native
    assert [said for document in native if (said := complaint(document, version))] == []


def test_the_schema_refuses_a_misspelt_field() -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"prots": [{"port": 80}]},
    }
    assert "prots" in (complaint(document, "1.35") or "")


def test_manifests_fit_into_one_request(synthesized: Synthesized, config: str) -> None:
    sizes = {path.name: path.stat().st_size for path in synthesized(config).manifest_files}
    assert sizes
    assert {name: size for name, size in sizes.items() if size >= MANIFEST_BYTES} == {}


def test_no_two_objects_share_a_name(synthesized: Synthesized, config: str) -> None:
    seen = [
        (
            document["apiVersion"],
            document["kind"],
            document["metadata"].get("namespace"),
            document["metadata"]["name"],
        )
        for _, document in synthesized(config).objects()
    ]
    assert sorted({key for key in seen if seen.count(key) > 1}) == []


def test_manifests_hold_no_deploy_time_token(synthesized: Synthesized, config: str) -> None:
    texts = {path.name: path.read_text() for path in synthesized(config).manifest_files}
    assert [name for name, text in texts.items() if "${Token[" in text] == []
