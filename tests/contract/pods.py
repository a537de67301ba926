"""Finds containers in rendered manifests and works out the arguments their programs will get."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

Document = dict[str, Any]
_REFERENCE = re.compile(r"\$(\$?)\(([A-Za-z_][A-Za-z0-9_]*)\)")


def pod_specs(objects: Iterable[Document]) -> Iterator[tuple[str, Document]]:
    """Yield every pod template with the kind and name of what owns it."""
    for document in objects:
        template = document.get("spec", {}).get("template", {})
        if "containers" in template.get("spec", {}):
            yield f"{document['kind']}/{document['metadata']['name']}", template["spec"]


def containers(objects: Iterable[Document], name: str) -> Iterator[tuple[str, Document]]:
    """Yield every container of that name, sidecars included, with its owner."""
    for owner, spec in pod_specs(objects):
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            if container["name"] == name:
                yield owner, container


def arguments(container: Document) -> list[str]:
    """Return command and arguments as the kubelet passes them on.

    A value that only a running pod has (a field of the pod, a key of a Secret) becomes its
    variable's name in lower case: a word that is valid wherever such a value may stand.
    """
    values = {
        entry["name"]: entry.get("value", entry["name"].lower().replace("_", "-"))
        for entry in container.get("env", [])
    }

    def expand(match: re.Match[str]) -> str:
        escaped, name = match.groups()
        return f"$({name})" if escaped else values.get(name, match.group())

    words = [*container.get("command", []), *container.get("args", [])]
    return [_REFERENCE.sub(expand, str(word)) for word in words]


def after(words: list[str], program: str) -> list[str]:
    """Return what follows the program's name among the words."""
    if program not in words:
        msg = f"{program!r} is not among the words of the container: {words}"
        raise AssertionError(msg)
    return words[words.index(program) + 1 :]
