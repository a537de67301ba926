"""What differs between a rendered pod and the processes that stand in for it here, and why.

Everything else of a container's command, arguments, environment and probes is used as rendered.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tools.local.pods import Container, Exec, Pod

_TRANSFER: Final = "--kv-transfer-config="
_ADAPTER: Final = "--l2-adapter="


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one pod stands on this machine.

    Attributes:
        address: Its own loopback address, in the place of a pod's.
        volumes: Name of a volume to the folder that stands in for it.
        kubeconfig: How its programs find the API that lists pods.
        api_url: The same API, for a program that reads no kubeconfig.
        cores: Cores that one engine computes on.
    """

    address: str
    volumes: Mapping[str, Path]
    kubeconfig: Path
    api_url: str
    cores: int


Change = Callable[[Container, Place], Container]


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitution:
    """One difference.

    Attributes:
        container: The container that it concerns, or None for all.
        name: What is substituted.
        reason: Why it has to be.
    """

    container: str | None
    name: str
    reason: str
    change: Change


def _own_address(container: Container, place: Place) -> Container:
    """A network namespace of its own becomes a loopback address of its own; ports stay."""
    changed = replace(container, argv=_at(container.argv, place))
    if isinstance(container.pre_stop, Exec):
        return replace(changed, pre_stop=Exec(_at(container.pre_stop.argv, place)))
    return changed


def _at(words: tuple[str, ...], place: Place) -> tuple[str, ...]:
    return tuple(
        word.replace("0.0.0.0", place.address).replace("127.0.0.1", place.address)  # noqa: S104
        for word in words
    )


def _paths(container: Container, place: Place) -> Container:
    """A mount becomes a folder; a longer path first, so that none hides another."""
    words, environment = list(container.argv), dict(container.environment)
    for path, volume in sorted(container.mounts.items(), reverse=True):
        folder = place.volumes.get(volume)
        if folder is not None:
            words = [_with_path(word, path, str(folder)) for word in words]
            environment = {
                name: _with_path(value, path, str(folder)) for name, value in environment.items()
            }
    return replace(container, argv=tuple(words), environment=environment)


def _with_path(text: str, path: str, folder: str) -> str:
    """Replace a path where it stands alone, after ``=`` or in quotes.

    >>> _with_path('--x={"base":"/mnt/kv","f":"/mnt/kv/key"}', "/mnt/kv", "/here")
    '--x={"base":"/here","f":"/here/key"}'
    >>> _with_path("/mnt/kv2", "/mnt/kv", "/here")
    '/mnt/kv2'
    """
    if text == path or text.startswith(f"{path}/"):
        return folder + text[len(path) :]
    for opening in ('"', "="):
        for closing in ('"', "/"):
            text = text.replace(f"{opening}{path}{closing}", f"{opening}{folder}{closing}")
    return text.removesuffix(f"={path}") + f"={folder}" if text.endswith(f"={path}") else text


def _with(container: Container, *words: str, **environment: str) -> Container:
    return replace(
        container,
        argv=(*container.argv, *words),
        environment={**container.environment, **environment},
    )


def edit_json(
    container: Container, flag: str, edit: Callable[[dict[str, Any]], object]
) -> Container:
    """Return the container with the JSON value of a flag edited; without the flag as it is."""
    words = list(container.argv)
    for index, word in enumerate(words):
        if word.startswith(flag):
            value = json.loads(word.removeprefix(flag))
            edit(value)
            words[index] = flag + json.dumps(value, separators=(",", ":"))
    return replace(container, argv=tuple(words))


def _server_transfer(container: Container, place: Place) -> Container:  # noqa: ARG001
    kept = tuple(word for word in container.argv if word != "--isolated-ipc")
    return replace(container, argv=(*kept, "--supported-transfer-mode=auto"))


def _engine_transfer(container: Container, place: Place) -> Container:  # noqa: ARG001
    def edit(config: dict[str, Any]) -> None:
        del config["kv_connector_extra_config"]["lmcache.mp.isolated_ipc"]

    return edit_json(container, _TRANSFER, edit)


def _any_mount(container: Container, place: Place) -> Container:  # noqa: ARG001
    kept = (word for word in container.argv if not word.startswith("--filesystem="))
    return replace(container, argv=tuple(kept))


def _programs(container: Container, place: Place) -> Container:
    """Several ConfigMaps are mounted below one path; their folders have none in common."""
    above = container.environment.get("PYTHONPATH")
    found = [
        str(place.volumes[volume].parent)
        for path, volume in sorted(container.mounts.items())
        if path.rpartition("/")[0] == above and volume in place.volumes
    ]
    return _with(container, PYTHONPATH=os.pathsep.join(found)) if found else container


SUBSTITUTIONS: Final = (
    Substitution(
        container=None,
        name="address",
        reason="a process has no network of its own; each pod gets a loopback address instead, "
        "and keeps its ports",
        change=_own_address,
    ),
    Substitution(
        container=None,
        name="paths",
        reason="a process has no mounts of its own; folders stand in for the pod's volumes",
        change=_paths,
    ),
    Substitution(
        container="vllm",
        name="weights",
        reason="the model has no weights to load: random ones of a fixed seed, equal in every "
        "process, and its folder lies in the working directory under the model's own name",
        change=lambda container, _: _with(container, "--load-format=dummy", HF_HUB_OFFLINE="1"),
    ),
    Substitution(
        container="vllm",
        name="device",
        # Pinned to cores, each engine would begin at the first one: there a starting engine got 2 %
        # beside one that answers, and took more than five minutes.
        reason="no GPU: L0 is 1 GiB of RAM, computed on the cores that are there, and no compiler "
        "is assumed",
        change=lambda container, place: _with(
            container,
            "--enforce-eager",
            VLLM_CPU_KVCACHE_SPACE="1",
            VLLM_CPU_OMP_THREADS_BIND="nobind",
            OMP_NUM_THREADS=str(place.cores),
        ),
    ),
    Substitution(
        container="vllm",
        name="transfer",
        reason="blocks reach the LMCache server through memory, not CUDA IPC",
        change=_engine_transfer,
    ),
    Substitution(
        container="lmcache",
        name="transfer",
        reason="blocks reach the LMCache server through memory, not CUDA IPC",
        change=_server_transfer,
    ),
    Substitution(
        container="router",
        name="API server",
        reason="a pod's service account names the API server; here a kubeconfig does",
        change=lambda container, place: _with(container, KUBECONFIG=str(place.kubeconfig)),
    ),
    Substitution(
        container="janitor",
        name="API server",
        reason="a pod's service account names the API server; here a URL does",
        change=lambda container, place: _with(container, f"--api-url={place.api_url}"),
    ),
    Substitution(
        container="janitor",
        name="mount",
        reason="it touches no directory that is not mounted by FUSE, and a folder is not; its "
        "marker is asked for as ever",
        change=_any_mount,
    ),
    Substitution(
        container=None,
        name="program",
        reason="Python looks for a program above where its ConfigMap is mounted; a folder stands "
        "in for that mount",
        change=_programs,
    ),
)
"""Every difference there is, in the order in which they are applied."""

NOT_STARTED: Final = {
    "check-gpu": "there is no GPU to be given",
    "check-cache-gpu": "there is no GPU to be seen",
    "check-cache-mount": "it rejects every mount that is not FUSE, and a folder is none",
}
"""Containers that are left out, and why."""

NOT_CARRIED_OVER: Final = {
    "image": "the programs come from pinned Python environments of the same versions",
    "resources, security contexts, affinity, NetworkPolicies": "nothing here enforces them",
    "the end of everything": "at the end of a run no pod is given its grace; see `roll` for that",
}
"""Parts of a pod that have no counterpart here."""


def substituted(pod: Pod, place: Place) -> Pod:
    """Return the pod as it can run on this machine."""
    containers = []
    for original in pod.containers:
        if original.name in NOT_STARTED:
            continue
        container = original
        for one in SUBSTITUTIONS:
            if one.container in (None, container.name):
                container = one.change(container, place)
        containers.append(container)
    return replace(pod, containers=tuple(containers))


def differences(pod: Pod, place: Place) -> list[str]:
    """List, a line each, what the substitutions change in the pod's commands and environments."""
    lines = [f"{name}: not started" for name in NOT_STARTED if name in _names(pod)]
    for container in substituted(pod, place).containers:
        original = pod.container(container.name)
        lines += [
            f"{container.name}: {line}"
            for line in (
                *_words(original.argv, container.argv),
                *_words(_pre_stop(original), _pre_stop(container)),
                *_variables(original.environment, container.environment),
            )
        ]
    return lines


def _pre_stop(container: Container) -> tuple[str, ...]:
    handler = container.pre_stop
    return handler.argv if isinstance(handler, Exec) else ()


def _names(pod: Pod) -> set[str]:
    return {container.name for container in pod.containers}


def _words(old: tuple[str, ...], new: tuple[str, ...]) -> list[str]:
    """Match words by their flag, and JSON values field by field.

    >>> _words(("a", "--x=1", "--y", '--z={"a":{"b":1}}'), ("a", "--x=2", '--z={"a":{"b":2}}'))
    ['--x=1 -> --x=2', '--y left out', '--z: a.b 1 -> 2']
    """
    fresh = {_key(word): word for word in new if word not in old}
    gone = {_key(word): word for word in old if word not in new}
    lines = []
    for flag, word in gone.items():
        if flag not in fresh:
            lines.append(f"{word} left out")
        elif word.startswith(f"{flag}={{"):
            before, after = (json.loads(one.partition("=")[2]) for one in (word, fresh[flag]))
            lines += [f"{flag}: {line}" for line in _fields(_flat(before), _flat(after))]
        else:
            lines.append(f"{word} -> {fresh[flag]}")
    return lines + [f"{word} added" for flag, word in fresh.items() if flag not in gone]


def _key(word: str) -> str:
    """What a word and its replacement have in common: the flag, the scheme, the end of a path."""
    if "://" in word and not word.startswith("-"):
        return word.partition("://")[0]
    return word.partition("=")[0] if word.startswith("-") else word.rpartition("/")[2]


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, entry in value.items():
        inner = isinstance(entry, dict)
        found |= _flat(entry, f"{prefix}{name}.") if inner else {f"{prefix}{name}": entry}
    return found


def _fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{name} {value} -> {new[name]}" if name in new else f"{name} left out"
        for name, value in old.items()
        if name not in new or new[name] != value
    ]
    return lines + [f"{name} {value} added" for name, value in new.items() if name not in old]


def _variables(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return [
        f"{name}={old[name]} -> {name}={value}" if name in old else f"{name}={value} added"
        for name, value in new.items()
        if old.get(name) != value
    ]
