"""What the API server holds, and what of it changed."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.rehearsal.cluster import Cluster

Key = tuple[str, str, str]
"""Kind, namespace (empty for what has none) and name."""

Document = Mapping[str, Any]

# Of no template, and never at rest.
_RESTLESS = "leases.coordination.k8s.io"

# What controllers write into objects of others.
_BINDING = ("volumeName", "claimRef", "nodeName")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What happened to a set of objects.

    Attributes:
        created: Objects that were not there before.
        deleted: Objects that are not there any more.
        changed: Objects whose content is another, or that were deleted and made anew.
    """

    created: frozenset[Key]
    deleted: frozenset[Key]
    changed: frozenset[Key]


def key_of(item: Document) -> Key:
    """Name an object."""
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace", ""), metadata["name"]


def listed(cluster: Cluster) -> dict[Key, Document]:
    """Return every object of every kind that can be listed."""
    kinds = [kind for kind in cluster.kubectl.kinds() if kind != _RESTLESS]
    return {key_of(item): item for item in cluster.kubectl.everywhere(kinds)}


def difference(before: Mapping[Key, Document], after: Mapping[Key, Document]) -> Difference:
    """Compare two listings by what people write into objects, not by status."""
    return Difference(
        created=frozenset(after.keys() - before.keys()),
        deleted=frozenset(before.keys() - after.keys()),
        changed=frozenset(
            key
            for key in before.keys() & after.keys()
            if _written(before[key]) != _written(after[key])
        ),
    )


def _written(item: Document) -> Document:
    """Keep what makes an object; an object without status keeps its version too."""
    metadata = {
        name: item["metadata"].get(name) for name in ("uid", "labels", "generation", "finalizers")
    }
    spec = {name: value for name, value in item.get("spec", {}).items() if name not in _BINDING}
    rest = {
        name: value for name, value in item.items() if name not in {"metadata", "spec", "status"}
    }
    if "status" not in item:
        metadata["resourceVersion"] = item["metadata"]["resourceVersion"]
    return {"metadata": metadata, "spec": spec, **rest}


def differing(
    cluster: Cluster, items: Iterable[Document], live: Mapping[Key, Document]
) -> dict[Key, list[str]]:
    """Apply objects without effect; name those that would become others, and where."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})
    said = cluster.kubectl("apply", "--dry-run=server", "--output=json", "--filename=-", stdin=text)
    found = {}
    for item in json.loads(said)["items"]:
        if places := list(_unlike(_applied(live[key_of(item)]), _applied(item))):
            found[key_of(item)] = places
    return found


def _applied(item: Document) -> Document:
    """Keep what an apply decides."""
    metadata = item["metadata"]
    annotations = dict(metadata.get("annotations", {}))
    annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    kept = {"labels": metadata.get("labels"), "annotations": annotations}
    rest = {name: value for name, value in item.items() if name not in {"metadata", "status"}}
    return {"metadata": kept, **rest}


def _unlike(one: Any, other: Any, place: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            yield from _unlike(one.get(name), other.get(name), f"{place}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _unlike(left, right, f"{place}[{index}]")
    elif one != other:
        yield f"{place}: {one!r} would be {other!r}"


def wait_until(nothing_left: Callable[[], Any], *, timeout_seconds: float) -> Any:
    """Ask until the answer is empty or time is up; return the last answer."""
    end = time.monotonic() + timeout_seconds
    while (answer := nothing_left()) and time.monotonic() < end:
        time.sleep(1)
    return answer
