"""Every metric name the boards use, once, with what is known about it.

A name is spelled as it stands in Managed Prometheus, that is after the scrape rules: Curvine's
master and worker names carry the prefix that ``scrape.py`` gives them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a metric may be read: a counter only through a rate, a histogram through buckets."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Component(StrEnum):
    """What exposes a metric; the value is the name of its scrape job."""

    VLLM = "vllm"
    LMCACHE = "lmcache"
    ROUTER = "router"
    JANITOR = "janitor"
    CURVINE_MASTER = "curvine-master"
    CURVINE_WORKER = "curvine-worker"
    CURVINE_FUSE = "curvine-fuse"

    @property
    def serves_one_model(self) -> bool:
        """True when each pod of the component belongs to a model."""
        return self in (
            Component.VLLM,
            Component.LMCACHE,
            Component.ROUTER,
            Component.JANITOR,
        )


class Source(StrEnum):
    """How a name is known."""

    RECORDED = "seen on a page recorded from the running component"
    LISTED = "read in the component's source; absent until its event or never recorded here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        name: Family name; a histogram's without ``_bucket``, ``_sum`` and ``_count``.
        labels: The component's own labels, without those the scrape adds.
    """

    name: str
    kind: Kind
    unit: str
    component: Component
    source: Source
    labels: tuple[str, ...] = ()


def _vllm(name: str, kind: Kind, unit: str, *labels: str) -> Metric:
    return Metric(
        name=f"vllm:{name}",
        kind=kind,
        unit=unit,
        component=Component.VLLM,
        source=Source.RECORDED,
        labels=("engine", "model_name", *labels),
    )


def _lmcache(
    name: str, kind: Kind, unit: str, *labels: str, source: Source = Source.RECORDED
) -> Metric:
    return Metric(
        name=f"lmcache_mp_{name}",
        kind=kind,
        unit=unit,
        component=Component.LMCACHE,
        source=source,
        labels=labels,
    )


def _cache(name: str, kind: Kind, unit: str) -> Metric:
    """Of our module in LMCache's server."""
    return Metric(
        name=f"kascade_cache_{name}",
        kind=kind,
        unit=unit,
        component=Component.LMCACHE,
        source=Source.RECORDED,
    )


def _router(name: str, kind: Kind, unit: str, *labels: str) -> Metric:
    return Metric(
        name=f"vllm_router_{name}",
        kind=kind,
        unit=unit,
        component=Component.ROUTER,
        source=Source.LISTED,
        labels=labels,
    )


def _janitor(name: str, kind: Kind, unit: str, *labels: str) -> Metric:
    return Metric(
        name=f"kascade_janitor_{name}",
        kind=kind,
        unit=unit,
        component=Component.JANITOR,
        source=Source.RECORDED,
        labels=labels,
    )


def _curvine(component: Component, name: str, kind: Kind, unit: str, *labels: str) -> Metric:
    return Metric(
        name=f"{component.value.replace('-', '_')}_{name}",
        kind=kind,
        unit=unit,
        component=component,
        source=Source.LISTED,
        labels=labels,
    )


# --- vLLM --------------------------------------------------------------------------------------

PROMPT_TOKENS = _vllm("prompt_tokens_total", Kind.COUNTER, "tokens")
PROMPT_TOKENS_CACHED = _vllm("prompt_tokens_cached_total", Kind.COUNTER, "tokens")
PROMPT_TOKENS_BY_SOURCE = _vllm("prompt_tokens_by_source_total", Kind.COUNTER, "tokens", "source")
GENERATION_TOKENS = _vllm("generation_tokens_total", Kind.COUNTER, "tokens")
TIME_TO_FIRST_TOKEN = _vllm("time_to_first_token_seconds", Kind.HISTOGRAM, "seconds")
INTER_TOKEN_LATENCY = _vllm("inter_token_latency_seconds", Kind.HISTOGRAM, "seconds")
QUEUE_TIME = _vllm("request_queue_time_seconds", Kind.HISTOGRAM, "seconds")
PREFILL_TIME = _vllm("request_prefill_time_seconds", Kind.HISTOGRAM, "seconds")
DECODE_TIME = _vllm("request_decode_time_seconds", Kind.HISTOGRAM, "seconds")
LOOKUP_TIME = _vllm("lmcache_mp_lookup_duration_seconds", Kind.HISTOGRAM, "seconds")
REQUESTS_RUNNING = _vllm("num_requests_running", Kind.GAUGE, "requests")
REQUESTS_WAITING = _vllm("num_requests_waiting_by_reason", Kind.GAUGE, "requests", "reason")
KV_FETCHES = _vllm("num_requests_kv_fetch_by_stage", Kind.GAUGE, "requests", "stage")
KV_USAGE = _vllm("kv_cache_usage_perc", Kind.GAUGE, "ratio")
PREEMPTIONS = _vllm("num_preemptions_total", Kind.COUNTER, "preemptions")
REQUESTS_FINISHED = _vllm("request_success_total", Kind.COUNTER, "requests", "finished_reason")

# --- LMCache multi-process server --------------------------------------------------------------

LOOKUP_HIT_L2 = _lmcache(
    "lookup_hit_l2_tokens_total", Kind.COUNTER, "tokens", "cache_salt", "model_name"
)
L1_USAGE = _lmcache("l1_usage_ratio", Kind.GAUGE, "ratio", "backend", "l1_tag")
L1_BYTES = _lmcache("l1_memory_usage_bytes", Kind.GAUGE, "bytes", "backend", "l1_tag")
L1_WRITTEN = _lmcache("l1_write_chunks_total", Kind.COUNTER, "chunks", "l1_tag")
L1_READ = _lmcache("l1_read_chunks_total", Kind.COUNTER, "chunks", "l1_tag")
L1_EVICTED = _lmcache("l1_evicted_chunks_total", Kind.COUNTER, "chunks", "l1_tag")
L1_IDLE_BEFORE_EVICTION = _lmcache(
    "l1_chunk_idle_before_evict_seconds", Kind.HISTOGRAM, "seconds", "l1_tag"
)
L1_ALLOCATION_FAILURES = _lmcache(
    "l1_allocation_failure_chunks_total", Kind.COUNTER, "chunks", source=Source.LISTED
)
L1_READ_FAILURES = _lmcache(
    "l1_read_failure_chunks_total", Kind.COUNTER, "chunks", source=Source.LISTED
)
L2_LOAD_SPEED = _lmcache("l2_load_throughput_GB_per_second", Kind.HISTOGRAM, "GB/s", "l2_name")
L2_STORE_SPEED = _lmcache("l2_store_throughput_GB_per_second", Kind.HISTOGRAM, "GB/s", "l2_name")
L2_STORES_SUBMITTED = _lmcache("l2_store_submitted_objects_chunks_total", Kind.COUNTER, "chunks")
L2_STORES_COMPLETED = _lmcache("l2_store_completed_objects_chunks_total", Kind.COUNTER, "chunks")
L2_LOADS_SUBMITTED = _lmcache(
    "l2_prefetch_load_submitted_objects_chunks_total", Kind.COUNTER, "chunks"
)
L2_LOADS_COMPLETED = _lmcache("l2_prefetch_load_completed_chunks_total", Kind.COUNTER, "chunks")
L2_LOAD_FAILURES = _lmcache(
    "l2_prefetch_failure_chunks_total", Kind.COUNTER, "chunks", source=Source.LISTED
)

# --- Curvine -----------------------------------------------------------------------------------

POOL_CAPACITY = _curvine(Component.CURVINE_MASTER, "capacity", Kind.GAUGE, "bytes")
POOL_AVAILABLE = _curvine(Component.CURVINE_MASTER, "available", Kind.GAUGE, "bytes")
POOL_WORKERS = _curvine(Component.CURVINE_MASTER, "worker_num", Kind.GAUGE, "workers", "tag")
POOL_FILES = _curvine(Component.CURVINE_MASTER, "inode_file_num", Kind.GAUGE, "files")
WORKER_READ = _curvine(Component.CURVINE_WORKER, "read_bytes", Kind.COUNTER, "bytes")
WORKER_WRITTEN = _curvine(Component.CURVINE_WORKER, "write_bytes", Kind.COUNTER, "bytes")
WORKER_FAILED_DISKS = _curvine(Component.CURVINE_WORKER, "failed_disks", Kind.GAUGE, "disks")
FUSE_ERRORS = _curvine(
    Component.CURVINE_FUSE, "errors_total", Kind.COUNTER, "errors", "opcode", "kind", "errno"
)
FUSE_HEALTH = _curvine(Component.CURVINE_FUSE, "kernel_fd_health", Kind.GAUGE, "boolean")

# --- The shared directory's janitor --------------------------------------------------------------

CACHE_REGISTERED = _cache("registered_workers", Kind.GAUGE, "workers")
CACHE_EXPECTED = _cache("expected_workers", Kind.GAUGE, "workers")
CACHE_UNOPENED = _cache("unopened_blocks_total", Kind.COUNTER, "chunks")
DIRECTORY_BYTES = _janitor("bytes", Kind.GAUGE, "bytes")
DIRECTORY_HIGH_BYTES = _janitor("high_bytes", Kind.GAUGE, "bytes")
JANITOR_DELETED_FILES = _janitor("deleted_files_total", Kind.COUNTER, "files", "reason")
JANITOR_STUCK = _janitor("stuck", Kind.GAUGE, "boolean")

# --- Router ------------------------------------------------------------------------------------

ROUTER_REQUESTS = _router("requests_total", Kind.COUNTER, "requests", "route")
ROUTER_ERRORS = _router("request_errors_total", Kind.COUNTER, "requests", "route", "error_type")
ROUTER_RETRIES = _router("retries_total", Kind.COUNTER, "retries", "route")
ROUTER_RETRIES_EXHAUSTED = _router("retries_exhausted_total", Kind.COUNTER, "requests", "route")
ROUTER_WORKER_HEALTH = _router("worker_health", Kind.GAUGE, "boolean", "worker")
ROUTER_WORKER_LOAD = _router("worker_load", Kind.GAUGE, "requests", "worker")
ROUTER_DECISIONS = _router("policy_decisions_total", Kind.COUNTER, "requests", "policy", "worker")
ROUTER_PREFIX_DECISIONS = _router(
    "prefix_routing_decisions_total", Kind.COUNTER, "requests", "policy", "stage", "outcome"
)

UNKNOWN_PREFIX = 'outcome="missing_tokens"'
"""Of that one: an engine gave no tokens of the prompt, so it went to the least loaded."""

INVENTORY: tuple[Metric, ...] = tuple(v for v in dict(globals()).values() if isinstance(v, Metric))


def exposed_names(metric: Metric) -> tuple[str, ...]:
    """Series names that a metric stands for: three of them for a histogram."""
    if metric.kind is Kind.HISTOGRAM:
        return tuple(f"{metric.name}_{part}" for part in ("bucket", "count", "sum"))
    return (metric.name,)
