"""Curvine's configuration file.

Curvine drops unknown keys without a word, so a misspelt one would simply have no effect. Here every
key is a field with a type: what is not declared cannot be written. Names and types are those of
CurvineIO/curvine v0.4.1, crate curvine-config.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, cast

from kascade.kube.curvine.names import CurvineNames
from kascade.plan import CurvinePlan, CurvineWorkerPlan

META_MOUNT: Final = "/data/meta"
JOURNAL_MOUNT: Final = "/data/journal"
DATA_MOUNT: Final = "/data/curvine"

_SUBDIRECTORY: Final = "db"
"""An ext4 volume has ``lost+found`` at its root, and a master does not start on a directory that is
neither empty nor a RocksDB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalAddress:
    """One member of the masters' Raft group."""

    id: int
    hostname: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterSection:
    """Table ``[master]``. The hostname comes from the environment: it differs from pod to pod."""

    rpc_port: int
    web_port: int
    meta_dir: str
    worker_policy: str
    # A file disappears up to one check plus one bucket after its age; the default is 1h each.
    ttl_checker_interval: str = "5m"
    ttl_bucket_interval: str = "5m"
    heartbeat_interval: str = "3s"
    # Upstream's own value. The master refuses to start when this or the next is below the
    # heartbeat.
    worker_blacklist_interval: str = "30s"
    # Until a silent worker counts as lost, each read of its blocks takes the client's time limit;
    # from then on it is an error at once. Upstream waits ten minutes before it copies blocks; with
    # one copy there is nothing to wait for. A worker that starts again tells all its blocks.
    worker_lost_interval: str = "1m"
    # Background replication can deadlock (CurvineIO/curvine issues 1713, 1634, 1636).
    block_replication_enabled: bool = False
    # Up to 0.4.1 this evicts nothing that has not expired and costs memory for its book-keeping.
    enable_quota_eviction: bool = False
    # One log line per metadata call, that is several per KV chunk.
    audit_logging_enabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSection:
    """Table ``[journal]``."""

    rpc_port: int
    journal_dir: str
    journal_addrs: tuple[JournalAddress, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSection:
    """Table ``[worker]``."""

    rpc_port: int
    web_port: int
    data_dir: tuple[str, ...]
    dir_reserved: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSection:
    """Table ``[client]``, read by the command line tool and by workers.

    It has no field for a time to live, on purpose: the tool stamps it on the directories it makes,
    and an expired directory is deleted with everything in it. The age of files is set by the volume
    attributes, which only FUSE reads.
    """

    block_size: str
    # One copy: a lost block is computed again, and every further copy costs pool and network.
    replicas: int = 1
    # A writer would look for the worker's block files in its own mount namespace and fail.
    short_circuit: bool = False
    audit_logging_enabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvineConfig:
    """The whole file; a section that a role does not read is None and left out."""

    cluster_id: str
    journal: JournalSection
    client: ClientSection
    master: MasterSection
    worker: WorkerSection | None = None
    # Both default to true when absent, and true wipes metadata or data at every start.
    format_master: bool = False
    format_worker: bool = False

    def to_toml(self) -> str:
        """Write the file: top-level values first, as TOML demands, then one table a section."""
        values: list[str] = []
        tables: list[str] = []
        for name, value in _items(self):
            if value is None:
                continue
            if isinstance(value, bool | int | str | tuple):
                values.append(f"{name} = {_toml(value)}")
            else:
                lines = [f"{key} = {_toml(item)}" for key, item in _items(value)]
                tables.append("\n".join([f"[{name}]", *lines]))
        return "\n\n".join(["\n".join(sorted(values)), *tables]) + "\n"


def _items(section: object) -> list[tuple[str, object]]:
    declared = fields(cast("MasterSection", section))
    return [(entry.name, getattr(section, entry.name)) for entry in declared]


def _toml(value: object) -> str:
    """Write one value.

    >>> _toml(True), _toml(8995), _toml("64MB"), _toml(("x", "y"))
    ('true', '8995', '"64MB"', '["x", "y"]')
    >>> _toml(JournalAddress(id=1, hostname="m", port=8996))
    '{ id = 1, hostname = "m", port = 8996 }'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in _items(value)) + " }"


def cluster_config(plan: CurvinePlan, worker: CurvineWorkerPlan | None = None) -> CurvineConfig:
    """Configuration of the masters and the command line tool, or of one group's workers."""
    names = CurvineNames(plan)
    return CurvineConfig(
        cluster_id=plan.cluster_id,
        master=MasterSection(
            rpc_port=plan.master_rpc_port,
            web_port=plan.master_web_port,
            meta_dir=f"{META_MOUNT}/{_SUBDIRECTORY}",
            worker_policy=plan.worker_policy,
        ),
        journal=JournalSection(
            rpc_port=plan.master_journal_port,
            journal_dir=f"{JOURNAL_MOUNT}/{_SUBDIRECTORY}",
            journal_addrs=tuple(
                JournalAddress(id=number, hostname=host, port=plan.master_journal_port)
                for number, host in enumerate(names.master_hosts, start=1)
            ),
        ),
        client=ClientSection(block_size=f"{plan.block_size_mib}MB"),
        worker=None if worker is None else _worker_section(plan, worker),
    )


def _worker_section(plan: CurvinePlan, worker: CurvineWorkerPlan) -> WorkerSection:
    return WorkerSection(
        rpc_port=plan.worker_rpc_port,
        web_port=plan.worker_web_port,
        # The size must be an integer: with a decimal point the entry does not parse.
        data_dir=(f"[SSD:{worker.capacity_gib}GB]{DATA_MOUNT}",),
        dir_reserved=f"{plan.reserved_gib}GB",
    )
