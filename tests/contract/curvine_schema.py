"""Curvine's configuration file as a strict schema, and what stops its processes from starting.

Curvine itself drops unknown keys without a word, and there is no program to ask: its images need a
cluster. So this is its source written down: the keys in tests/data/curvine, the rules from
``master_conf.rs`` and ``worker_conf.rs`` of crate curvine-config, ``journal_system.rs`` and
``worker_policy_adapter.rs`` of curvine-master, the units from ``crates/common``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

Toml = Mapping[str, Any]
Type = Callable[[object], bool]

VERSION: Final = "0.4.1"
DATA: Final = Path(__file__).parents[1] / "data" / "curvine"

_SIZE: Final = re.compile(r"[0-9]+(\.[0-9]+)?(B|KB?|MB?|GB?|TB?|PB?)?")
_DURATION: Final = re.compile(r"[0-9]+(ms|s|m|h|d)?")
DATA_DIR: Final = re.compile(
    r"(\[(MEM|SSD|HDD|DISK|SPDK_DISK)(:(0|[1-9][0-9]*)(B|[KMGTP]B?))?\])?(/.+)"
)
"""A size with a decimal point does not match, and without a size the whole file system is meant."""


def flag(value: object) -> bool:
    """True or false."""
    return isinstance(value, bool)


def number(value: object) -> bool:
    """A whole number; TOML knows true from 1, Python does not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def port(value: object) -> bool:
    """A port."""
    return number(value) and 0 < int(str(value)) < 65536


def text(value: object) -> bool:
    """Text that says something."""
    return isinstance(value, str) and bool(value)


def size(value: object) -> bool:
    """A size with a unit of 1024s; ``Gi`` is rejected."""
    return isinstance(value, str) and bool(_SIZE.fullmatch(value))


def duration(value: object) -> bool:
    """A time with a unit; a bare number is milliseconds."""
    return isinstance(value, str) and bool(_DURATION.fullmatch(value))


def texts(value: object) -> bool:
    """A list of text."""
    return isinstance(value, list) and all(map(text, value))


def peers(value: object) -> bool:
    """Members of the masters' group."""
    return isinstance(value, list) and all(
        isinstance(peer, dict)
        and set(peer) == {"id", "hostname", "port"}
        and number(peer["id"])
        and text(peer["hostname"])
        and port(peer["port"])
        for peer in value
    )


def table(value: object) -> bool:
    """A table of its own, which we do not write."""
    return isinstance(value, dict)


_TYPES: Final[Mapping[str, Type]] = {
    check.__name__: check
    for check in (flag, number, port, text, size, duration, texts, peers, table)
}


def _read() -> dict[str, dict[str, Type]]:
    written = tomllib.loads((DATA / f"config-{VERSION}.toml").read_text())
    return {
        section: {key: _TYPES[kind] for kind, keys in types.items() for key in keys}
        for section, types in written.items()
    }


SECTIONS: Final[Mapping[str, Mapping[str, Type]]] = _read()
TOP: Final = SECTIONS["top"]

WORKER_POLICIES: Final = frozenset({"local", "robin", "random", "load_based", "weighted"})
DEFAULTS: Final = {"heartbeat": "3s", "blacklist": "30s", "lost": "10m"}

VOLUME_ATTRIBUTES: Final[Mapping[str, frozenset[str]]] = {
    f"v{VERSION}": frozenset(
        (
            # The driver's own (validator.go, node.go).
            "master-addrs",
            "curvine-path",
            "fs-path",
            # Any other key becomes `curvine-fuse --key value`: the flags of mount_args.rs, which
            # are those of [fuse], and one for each key of [client]. A bare switch cannot be passed,
            # the driver rejects a mount path, and one key is in the file alone.
            *(
                key.replace("_", "-")
                for key in SECTIONS["fuse"]
                if key not in {"mnt_path", "readonly", "fuse_opts"}
            ),
            *(
                f"client.{key.replace('_', '-')}"
                for key in SECTIONS["client"]
                if key != "pipeline_timeout_ms"
            ),
        )
    )
}
"""What a volume may say, by the version of the CSI driver."""


def unknown(config: Toml) -> Iterator[str]:
    """Yield what Curvine would drop or misread."""
    for name, value in config.items():
        if isinstance(value, dict):
            if name not in SECTIONS or name == "top":
                yield f"[{name}] is no section"
                continue
            for key, item in value.items():
                if key not in SECTIONS[name]:
                    yield f"[{name}] has no {key}"
                elif not SECTIONS[name][key](item):
                    yield f"[{name}] {key} = {item!r} is of another type"
        elif name not in TOP:
            yield f"the file has no {name}"
        elif not TOP[name](value):
            yield f"{name} = {value!r} is of another type"


def refusals(config: Toml, *, role: str, hostname: str, mounts: tuple[str, ...]) -> Iterator[str]:
    """Yield why a process would not start, or would start by wiping what it has.

    Args:
        config: The file.
        role: ``master`` or ``worker``.
        hostname: What the process calls itself.
        mounts: Where volumes are mounted in its container.
    """
    for key in ("format_master", "format_worker"):
        # True when absent, and true wipes at every start.
        if config.get(key, True) is not False:
            yield f"{key} is not false"
    if role == "master":
        yield from _master(config, hostname, mounts)
    else:
        yield from _worker(config)


def _master(config: Toml, hostname: str, mounts: tuple[str, ...]) -> Iterator[str]:
    master, journal = config.get("master", {}), config.get("journal", {})
    members = [peer["hostname"] for peer in journal.get("journal_addrs", [])]
    if hostname not in members:
        yield f"{hostname} is not in journal_addrs"
    policy = master.get("worker_policy", "local")
    if policy not in WORKER_POLICIES:
        yield f"worker_policy {policy} is unknown"
    beat = milliseconds(master.get("heartbeat_interval", DEFAULTS["heartbeat"]))
    for name in ("blacklist", "lost"):
        if milliseconds(master.get(f"worker_{name}_interval", DEFAULTS[name])) < beat:
            yield f"worker_{name}_interval is below the heartbeat"
    for name in ("conn_limit", "global_limit"):
        if master.get(name, 1) == 0:
            yield f"{name} is 0"
    for owner, key in ((master, "meta_dir"), (journal, "journal_dir")):
        path = PurePosixPath(owner.get(key, ""))
        if not path.is_absolute():
            yield f"{key} is not absolute"
        elif str(path) in mounts:
            # Where ext4 has lost+found, which is neither empty nor a RocksDB.
            yield f"{key} is the root of a volume"


def _worker(config: Toml) -> Iterator[str]:
    directories = config.get("worker", {}).get("data_dir", [])
    if not directories:
        yield "data_dir is empty"
    for entry in directories:
        if not DATA_DIR.fullmatch(entry):
            yield f"data_dir {entry} does not parse"


_UNITS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(value: str) -> int:
    """Read a duration.

    >>> milliseconds("3s"), milliseconds("10m"), milliseconds("500")
    (3000, 600000, 500)
    """
    match = re.fullmatch(r"([0-9]+)(ms|s|m|h|d)?", value)
    assert match is not None, value
    return int(match[1]) * _UNITS[match[2] or ""]
