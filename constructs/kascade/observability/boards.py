"""The dashboards, as data: what each panel shows and what a reader learns from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kascade.errors import KascadeError
from kascade.observability import metrics as m
from kascade.observability.layout import Board, Row, Variable, chart, number, render
from kascade.observability.promql import gauge, mean, quantile, rate, rate_or_zero, select, share
from kascade.plan import ObservabilityPlan

_UID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")

# Grafana's names of units.
_RATIO = "percentunit"
_SECONDS = "s"
_BYTES = "decbytes"
_BYTES_PER_SECOND = "Bps"
_GIGABYTES_PER_SECOND = "GBs"
_REQUESTS_PER_SECOND = "reqps"
_PER_SECOND = "cps"
_COUNT = "short"

# Prompt tokens per second by the tier that supplied them. vLLM knows what came from its own cache
# (L0) and what came from outside, not which outer tier it was. LMCache counts L2 hits, but also
# for tokens L0 already held, so its count is bounded pod by pod by what the engine received.
_L0 = rate(m.PROMPT_TOKENS_BY_SOURCE, where='source="local_cache_hit"')
_COMPUTED = rate(m.PROMPT_TOKENS_BY_SOURCE, where='source="local_compute"')
_ALL = rate(m.PROMPT_TOKENS)
_OUTSIDE = rate(m.PROMPT_TOKENS_BY_SOURCE, by="cluster, pod", where='source="external_kv_transfer"')
_L2_HITS = f"({rate(m.LOOKUP_HIT_L2, by='cluster, pod')} or {_OUTSIDE} * 0)"
_L1 = f"sum(clamp_min({_OUTSIDE} - {_L2_HITS}, 0))"
_L2 = f"sum(({_L2_HITS} < {_OUTSIDE}) or {_OUTSIDE})"

_TIERS = Row(
    "Tiers",
    (
        number(
            "Prompt tokens reused",
            share(rate(m.PROMPT_TOKENS_CACHED), _ALL),
            unit=_RATIO,
            good_from=0.3,
            why="Share of prompt tokens whose KV came from any tier instead of being computed.",
        ),
        number(
            "From L0",
            share(_L0, _ALL),
            unit=_RATIO,
            why="Share of prompt tokens found in the GPU memory of the replica that got them.",
        ),
        number(
            "From L1",
            share(_L1, _ALL),
            unit=_RATIO,
            why="Share of prompt tokens that came from host memory. A lower bound, because "
            "LMCache may count a token for L2 that L0 held as well.",
        ),
        number(
            "From L2",
            share(_L2, _ALL),
            unit=_RATIO,
            why="Share of prompt tokens that came from Curvine. An upper bound, see L1.",
        ),
        number(
            "Recomputed",
            _COMPUTED,
            unit=_PER_SECOND,
            why="Prompt tokens per second that no tier had, so that the GPU computed them.",
        ),
        number(
            "Generated",
            rate(m.GENERATION_TOKENS),
            unit=_PER_SECOND,
            why="Tokens per second that the engines produced.",
        ),
        chart(
            "Prompt tokens by tier",
            {"L0 GPU": _L0, "L1 host": _L1, "L2 Curvine": _L2, "recomputed": _COMPUTED},
            unit=_PER_SECOND,
            stacked=True,
            width=16,
            why="Where the KV of each prompt token came from. The height is the prompt traffic; "
            "a thick top layer is work the cache did not save.",
        ),
        chart(
            "Read from L2 and used from L2",
            {"read by LMCache": rate(m.LOOKUP_HIT_L2), "used by the engine": _L2},
            unit=_PER_SECOND,
            why="Tokens per second that LMCache loaded from Curvine and those the engine took. "
            "A gap means blocks are loaded that L0 already holds.",
        ),
    ),
)

_LATENCY = Row(
    "Latency",
    (
        chart(
            "Time to first token",
            {f"p{q:g}": quantile(q / 100, m.TIME_TO_FIRST_TOKEN) for q in (50, 95, 99)},
            unit=_SECONDS,
            why="From a request's arrival at the engine to its first token, queueing included.",
        ),
        chart(
            "Inter-token latency",
            {f"p{q:g}": quantile(q / 100, m.INTER_TOKEN_LATENCY) for q in (50, 95, 99)},
            unit=_SECONDS,
            why="Pause between two tokens of one answer. It grows with the batch, and when long "
            "prefills interrupt decoding.",
        ),
        chart(
            "Where a request's time goes",
            {
                "queue": mean(m.QUEUE_TIME),
                "prefill": mean(m.PREFILL_TIME),
                "decode": mean(m.DECODE_TIME),
            },
            unit=_SECONDS,
            stacked=True,
            why="Mean time of a request by phase. Reuse shortens prefill, and with it the queue.",
        ),
        chart(
            "Cache lookup",
            {"p50": quantile(0.5, m.LOOKUP_TIME), "p95": quantile(0.95, m.LOOKUP_TIME)},
            unit=_SECONDS,
            why="How long the engine waits for LMCache to say what it has. Part of the time to "
            "first token of each request.",
        ),
    ),
)

_L1_ROW = Row(
    "L1: host memory",
    (
        chart(
            "L1 used",
            {"{{pod}}": gauge(m.L1_USAGE, using="max", by="pod")},
            unit=_RATIO,
            maximum=1,
            why="Filling of each pod's L1. Near full is normal; what counts is how soon blocks "
            "that would be asked for again are evicted.",
        ),
        chart(
            "L1 size in use",
            {"{{pod}}": gauge(m.L1_BYTES, by="pod")},
            unit=_BYTES,
            why="Bytes that each pod's L1 holds.",
        ),
        chart(
            "Chunks through L1",
            {
                "written": rate(m.L1_WRITTEN),
                "read": rate(m.L1_READ),
                "evicted": rate(m.L1_EVICTED),
            },
            unit=_PER_SECOND,
            why="Eviction as fast as writing with few reads: L1 is too small for the traffic, or "
            "the traffic does not repeat.",
        ),
        chart(
            "Idle time before eviction",
            {
                "p50": quantile(0.5, m.L1_IDLE_BEFORE_EVICTION),
                "p95": quantile(0.95, m.L1_IDLE_BEFORE_EVICTION),
            },
            unit=_SECONDS,
            why="How long evicted chunks had lain unused (from a 1 % sample). Shorter than the "
            "pause between two turns of a conversation means L1 forgets too early.",
        ),
        chart(
            "L1 failures",
            {
                "allocation": rate_or_zero(m.L1_ALLOCATION_FAILURES),
                "read": rate_or_zero(m.L1_READ_FAILURES),
            },
            unit=_PER_SECOND,
            why="Chunks per second that found no room in L1, or that vanished before they were "
            "read. Both end as recomputation.",
        ),
    ),
)

_L2_ROW = Row(
    "L2: Curvine",
    (
        number(
            "Pool used",
            f"1 - {share(gauge(m.POOL_AVAILABLE), gauge(m.POOL_CAPACITY))}",
            unit=_RATIO,
            bad_from=0.9,
            why="Share of the workers' NVMe pool in use. Engines evict what they wrote; what pods "
            "that are gone have left goes when the janitor's mark or its time to live comes.",
        ),
        number(
            "Files",
            gauge(m.POOL_FILES, using="max"),
            unit=_COUNT,
            why="Files in the Curvine namespace, one for each stored chunk.",
        ),
        number(
            "Failed disks",
            gauge(m.WORKER_FAILED_DISKS),
            unit=_COUNT,
            bad_from=1,
            why="Disks that workers gave up on; what they held is recomputed on demand.",
        ),
        number(
            "Unhealthy mounts",
            f"count({select(m.FUSE_HEALTH)} == 0) or vector(0)",
            unit=_COUNT,
            bad_from=1,
            why="FUSE sessions whose kernel side is broken. Pods on such a mount lose L2 until "
            "they restart.",
        ),
        number(
            "Load failures",
            share(f"({rate_or_zero(m.L2_LOAD_FAILURES)})", rate(m.L2_LOADS_SUBMITTED)),
            unit=_RATIO,
            bad_from=0.01,
            why="Share of chunks asked of L2 that did not arrive and were recomputed.",
        ),
        number(
            "Engines without cache",
            f"count({select(m.CACHE_REGISTERED)} < {select(m.CACHE_EXPECTED)}) or vector(0)",
            unit=_COUNT,
            bad_from=1,
            why="Pods whose LMCache server does not know their engine, or not each of its GPUs: "
            "they neither store nor load. Normal while a model loads; else delete the pod.",
        ),
        chart(
            "Workers by state",
            {"{{tag}}": gauge(m.POOL_WORKERS, by="tag")},
            unit=_COUNT,
            why="A lost worker takes its blocks out of the cache; they are recomputed.",
        ),
        chart(
            "Transfer speed of one task",
            {"load": mean(m.L2_LOAD_SPEED), "store": mean(m.L2_STORE_SPEED)},
            unit=_GIGABYTES_PER_SECOND,
            why="Mean over load and store tasks, queueing included. A mean, because the lowest "
            "histogram bucket ends at 5 GB/s and quantiles below it would be made up.",
        ),
        chart(
            "Store backlog",
            {
                "submitted": rate(m.L2_STORES_SUBMITTED),
                "completed": rate(m.L2_STORES_COMPLETED),
            },
            unit=_PER_SECOND,
            why="Chunks handed to L2 and chunks stored. A lasting gap is a backlog or a full "
            "disk: LMCache has no counter of failed stores.",
        ),
        chart(
            "Chunks loaded from L2",
            {"asked for": rate(m.L2_LOADS_SUBMITTED), "arrived": rate(m.L2_LOADS_COMPLETED)},
            unit=_PER_SECOND,
            why="Chunks per second that LMCache asked of Curvine and those it received.",
        ),
        chart(
            "Blocks that could not be opened",
            {"{{pod}}": rate(m.CACHE_UNOPENED, by="pod")},
            unit=_PER_SECOND,
            why="Chunks per second that were deleted because their load failed to open: damaged, "
            "or of another key. They are stored anew; a lasting rate means two keys in one place.",
        ),
        chart(
            "Worker traffic",
            {
                "read {{node}}": rate(m.WORKER_READ, by="node"),
                "written {{node}}": rate(m.WORKER_WRITTEN, by="node"),
            },
            unit=_BYTES_PER_SECOND,
            why="Bytes per second through each node's worker. One node far above the others "
            "holds the popular prefixes.",
        ),
        number(
            "Stuck janitors",
            gauge(m.JANITOR_STUCK),
            unit=_COUNT,
            bad_from=1,
            why="Rounds that got no answer from the mount and could not be ended. Engines on that "
            "node hang on the same mount.",
        ),
        chart(
            "Shared directory",
            {
                "{{model}}": gauge(m.DIRECTORY_BYTES, using="max", by="model"),
                "{{model}}, mark": gauge(m.DIRECTORY_HIGH_BYTES, using="max", by="model"),
            },
            unit=_BYTES,
            why="Size of all cached files, and the mark above which the oldest are deleted. "
            "Lasting above it, they are too young, or the janitor does not get through.",
        ),
        chart(
            "Deleted by the janitor",
            {"{{reason}}": rate(m.JANITOR_DELETED_FILES, by="reason")},
            unit=_PER_SECOND,
            why="mark: the directory was above its mark. disk: the pool was. unreadable: blocks "
            "lost with a worker. incomplete: empty or short files. dead_pod: leftovers of pods "
            "that are gone.",
        ),
        chart(
            "FUSE errors",
            {"{{errno}}": rate(m.FUSE_ERRORS, by="errno")},
            unit=_PER_SECOND,
            why="Failed file operations by errno. Asking for a file that is not there (ENOENT) is "
            "a plain cache miss; EIO and ETIMEDOUT are trouble.",
        ),
    ),
)

_ROUTER = Row(
    "Router",
    (
        chart(
            "Requests",
            {"{{route}}": rate(m.ROUTER_REQUESTS, by="route")},
            unit=_REQUESTS_PER_SECOND,
            why="Requests per second that reached the router.",
        ),
        chart(
            "Errors",
            {"{{error_type}}": rate(m.ROUTER_ERRORS, by="error_type")},
            unit=_REQUESTS_PER_SECOND,
            why="Requests per second that the router answered with an error.",
        ),
        chart(
            "Retries",
            {
                "retried": rate_or_zero(m.ROUTER_RETRIES),
                "given up": rate_or_zero(m.ROUTER_RETRIES_EXHAUSTED),
            },
            unit=_REQUESTS_PER_SECOND,
            why="Attempts moved to another replica, and requests that ran out of attempts. The "
            "first hides a failing replica from users, the second does not.",
        ),
        chart(
            "Replica health",
            {"{{worker}}": gauge(m.ROUTER_WORKER_HEALTH, using="min", by="worker")},
            unit=_COUNT,
            maximum=1,
            why="1 while every router holds the replica for healthy, 0 when one does not.",
        ),
        chart(
            "Load by replica",
            {"{{worker}}": gauge(m.ROUTER_WORKER_LOAD, by="worker")},
            unit=_COUNT,
            why="Requests in flight at each replica. Cache affinity skews it; a replica that "
            "stays far above the rest is overloaded.",
        ),
        chart(
            "Decisions",
            {"{{policy}} {{worker}}": rate(m.ROUTER_DECISIONS, by="policy, worker")},
            unit=_REQUESTS_PER_SECOND,
            why="Which policy sent how many requests to which replica.",
        ),
        number(
            "Prefix unknown",
            share(
                f"({rate(m.ROUTER_PREFIX_DECISIONS, where=m.UNKNOWN_PREFIX)} or vector(0))",
                rate(m.ROUTER_PREFIX_DECISIONS),
            ),
            unit=_RATIO,
            bad_from=0.1,
            why="Share of prompts whose tokens the router did not learn from every engine in time, "
            "so that it sent them to the least loaded one. 0 but for retries.",
        ),
        chart(
            "Prefixes",
            {"{{outcome}}": rate(m.ROUTER_PREFIX_DECISIONS, by="outcome")},
            unit=_REQUESTS_PER_SECOND,
            why="prefix_hit: sent where its prefix is. prefix_miss: new. load_imbalance: sent away "
            "from it, because others are idle. missing_tokens: an engine rendered nothing.",
        ),
    ),
)

_ENGINE = Row(
    "Engine",
    (
        chart(
            "Running requests",
            {"{{pod}}": gauge(m.REQUESTS_RUNNING, by="pod")},
            unit=_COUNT,
            why="Requests in each engine's batch.",
        ),
        chart(
            "Waiting requests",
            {"{{reason}}": gauge(m.REQUESTS_WAITING, by="reason")},
            unit=_COUNT,
            why="Requests not yet in a batch. Reason capacity: the engine has no room; deferred: "
            "they wait for something else, such as KV on its way.",
        ),
        chart(
            "Waiting for KV",
            {"{{stage}}": gauge(m.KV_FETCHES, by="stage")},
            unit=_COUNT,
            why="Requests whose KV is being fetched from L1 or L2. A pile here while latency "
            "grows means loading costs more than computing.",
        ),
        chart(
            "L0 used",
            {"{{pod}}": gauge(m.KV_USAGE, using="max", by="pod")},
            unit=_RATIO,
            maximum=1,
            why="Share of each engine's KV blocks held by running requests.",
        ),
        chart(
            "Preemptions",
            {"{{pod}}": rate(m.PREEMPTIONS, by="pod")},
            unit=_PER_SECOND,
            why="Requests thrown out of the batch for lack of KV blocks, to be computed again.",
        ),
        chart(
            "Finished requests",
            {"{{finished_reason}}": rate(m.REQUESTS_FINISHED, by="finished_reason")},
            unit=_REQUESTS_PER_SECOND,
            why="Requests per second by how they ended.",
        ),
    ),
)

KV_CACHE_TIERS = Board(
    uid="kascade-kv-cache-tiers",
    title="KV cache tiers",
    description="Which tier answered, how fast, and what stands in the way.",
    tags=("kascade", "kv-cache"),
    variables=(
        Variable(name="cluster", label="Cluster", series=m.REQUESTS_RUNNING.name, value="cluster"),
        Variable(
            name="model",
            label="Model",
            series=f'{m.REQUESTS_RUNNING.name}{{cluster=~"$cluster"}}',
            value="model",
        ),
    ),
    rows=(_TIERS, _LATENCY, _L1_ROW, _L2_ROW, _ROUTER, _ENGINE),
)

BOARDS: tuple[Board, ...] = (KV_CACHE_TIERS,)


def boards(plan: ObservabilityPlan) -> Mapping[str, str]:
    """Every dashboard as JSON text, by uid.

    The same text becomes a ConfigMap and is carried to Managed Grafana.
    """
    return dashboards(datasource_uid=plan.datasource_uid)


def dashboards(*, datasource_uid: str = "default") -> Mapping[str, str]:
    """Every dashboard as JSON text, by uid, for a Grafana of one's own.

    They read the labels that :func:`~kascade.observability.scrape.scrape_jobs` writes.

    Args:
        datasource_uid: Prometheus data source that they start with; a reader may choose another on
            the page. Default: the one that Grafana itself calls its default.

    Raises:
        KascadeError: It is none that Grafana takes.
    """
    if not isinstance(datasource_uid, str) or not _UID.fullmatch(datasource_uid):
        msg = (
            f"datasource_uid is {datasource_uid!r}; give the uid of a data source of your Grafana: "
            "1 to 40 letters, digits, hyphens and _"
        )
        raise KascadeError(msg)
    return {board.uid: render(board, datasource_uid=datasource_uid) for board in BOARDS}
