"""The plan as tables for a person. Nothing is computed here."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kascade.catalog.endpoints import CLOSED_ENDPOINTS, GRAFANA_ENDPOINTS
from kascade.plan import ContainerSize, EnginePlan, Figure, Price, ServingPlan, TenancyPlan
from kascade.units import GIB, MIB, counted, format_bytes, format_count, mib_to_gib

_PLAIN_WIDTH = 150
"""Width when nobody watches (a pipe, a file), so that the same plan gives the same text."""


def show_plan(plan: ServingPlan, *, source: str) -> None:
    """Print the plan to standard output.

    Args:
        plan: The plan.
        source: Where it came from, for the title.
    """
    live = sys.stdout.isatty()
    console = Console(width=None if live else _PLAIN_WIDTH, highlight=False)
    with console.capture() as capture:
        for part in _parts(plan, source):
            console.print(part)
    # rich fills every line of a table to its full width.
    lines = (line.rstrip() for line in capture.get().splitlines())
    sys.stdout.write("\n".join(lines) + "\n")


def _parts(plan: ServingPlan, source: str) -> Iterator[RenderableType]:
    yield ""
    yield Text.assemble(
        (plan.name, "bold"),
        f"  {plan.region} ({', '.join(plan.network.zones)})  Kubernetes "
        f"{plan.cluster.kubernetes_version}  from {source}",
    )
    for engine in plan.engines:
        yield ""
        yield _engine_title(engine)
        yield _indented(_tiers(plan, engine))
        yield ""
        yield _indented(_figures(plan, engine))
    yield ""
    yield Text("Nodes", style="bold")
    yield _indented(_nodes(plan))
    for group in plan.cluster.groups:
        if group.l2_cpu is not None:
            cpu = group.l2_cpu
            yield _indented(Text(f"{group.name} keeps {cpu.value:.1f} CPUs for L2: {cpu.reason}"))
    chart = plan.platform.dependencies_chart
    if chart is not None:
        yield _indented(Text(f"HyperPod's agents and device plugins: the chart {chart.path}"))
    if plan.network.nat_gateways == 0:
        yield ""
        yield _endpoints_title(plan)
        yield _indented(_endpoints(plan))
    yield ""
    yield Text("Cost", style="bold")
    cost = plan.usd_per_hour
    yield _indented(Text(f"{_usd(cost)} = {cost.reason}"))
    if plan.warnings:
        yield ""
        yield Text("Worth a look", style="bold yellow")
        for warning in plan.warnings:
            yield _indented(Text(f"- {warning}"))
    yield ""


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2))


def _engine_title(engine: EnginePlan) -> Text:
    gpus = counted(engine.gpus, "GPU")
    return Text.assemble(
        (engine.name, "bold"),
        f"  {engine.model}  {engine.replicas} x {gpus} on {engine.group} "
        f"({' or '.join(engine.instance_types)})",
    )


def _grid() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=True)


def _tiers(plan: ServingPlan, engine: EnginePlan) -> Table:
    table = _grid()
    table.add_column("Tier", style="bold")
    table.add_column("Holds", justify="right")
    table.add_column("Tokens", justify="right")
    table.add_column("Where")
    table.add_column("Because", overflow="fold", style="dim")
    for row in plan.tiers:
        if row.model == engine.name:
            table.add_row(
                row.tier,
                format_bytes(row.size_bytes),
                format_count(row.tokens),
                row.where,
                row.reason,
            )
    return table


def _figures(plan: ServingPlan, engine: EnginePlan) -> Table:
    figures, lmcache = engine.figures, engine.lmcache
    table = _grid()
    table.show_header = False
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(overflow="fold", style="dim")
    table.add_row("weights / GPU", _size(figures.weights_per_gpu), figures.weights_per_gpu.reason)
    table.add_row("KV / token", _size(figures.kv_per_token), figures.kv_per_token.reason)
    if engine.gpus > 1:
        table.add_row(
            "KV / token / GPU",
            _size(figures.kv_per_token_per_gpu),
            figures.kv_per_token_per_gpu.reason,
        )
        table.add_row(
            "stored / token", _size(figures.stored_per_token), figures.stored_per_token.reason
        )
    table.add_row(
        "longest request",
        f"{engine.max_model_len:,} tokens",
        "the least of what was asked, the model's limit and L0 of one replica",
    )
    table.add_row(
        "prefill", f"{figures.prefill_rate.value:,.0f} tok/s", figures.prefill_rate.reason
    )
    table.add_row(
        "one pass",
        f"{engine.max_batched_tokens:,} tokens",
        f"{figures.batched_tokens.reason}; {figures.full_pass.value:.2f} s "
        f"{figures.full_pass.reason}",
    )
    table.add_row("one batch", f"{engine.max_num_seqs:,} requests", figures.num_seqs.reason)
    _add_l2_rows(table, engine)
    table.add_row("L1 / replica", _size(figures.l1_size), figures.l1_size.reason)
    table.add_row(
        "pod RAM",
        f"{mib_to_gib(engine.size.limit_mib + lmcache.size.limit_mib):,.0f} GiB",
        f"vLLM {_mib(engine.size)} with {format_bytes(engine.shm_mib * MIB)} of /dev/shm, "
        f"LMCache {_mib(lmcache.size)} with {lmcache.l1_gib} GiB of L1",
    )
    surge = (
        "one replica more during a roll-out"
        if engine.max_surge
        else "every GPU is taken, so a roll-out replaces one replica at a time"
    )
    table.add_row("roll-out", f"+{engine.max_surge} / -{engine.max_unavailable}", surge)
    if engine.operator is None:
        table.add_row("drain", f"{figures.drain.value:,.0f} s", figures.drain.reason)
    table.add_row("hung after", f"{figures.core_silence.value:,.0f} s", figures.core_silence.reason)
    table.add_row("cache / GPU", _size(figures.cache_context), figures.cache_context.reason)
    for router in plan.routers:
        if router.engine == engine.name:
            table.add_row(
                "router", router.strategy, f"{router.program} {router.policy}: {router.reason}"
            )
            if router.rendering is not None:
                table.add_row(
                    "rendering", f"{router.rendering.value:,.0f}/s at most", router.rendering.reason
                )
            table.add_row(
                "longest answer",
                f"{figures.longest_answer.value:,.0f} s",
                figures.longest_answer.reason,
            )
            table.add_row(
                "one request",
                f"{router.request_timeout_seconds:,} s",
                router.request_timeout_reason,
            )
    if engine.tenancy is not None:
        table.add_row("tenancy", *_tenancy(engine.tenancy))
    table.add_row("cost / replica", _usd(figures.usd_per_hour), figures.usd_per_hour.reason)
    return table


def _tenancy(tenancy: TenancyPlan) -> tuple[str, str]:
    if tenancy.tenant_gateways:
        return "salted", f"cached blocks apart, a tenant gateway each: {', '.join(tenancy.tenants)}"
    return "isolated", f"engines, cache and key of {', '.join(tenancy.tenants)} alone"


def _add_l2_rows(table: Table, engine: EnginePlan) -> None:
    rate, even = engine.figures.l2_load_rate, engine.figures.break_even_tokens
    if rate is None:
        return
    pays = even is not None and even.value <= engine.max_model_len
    table.add_row("load from L2", f"{rate.value / GIB:.2f} GiB/s", rate.reason)
    table.add_row(
        "L2 pays from",
        f"{even.value:,.0f} tokens" if even is not None and pays else "never",
        engine.figures.break_even_reason,
    )
    cross = engine.figures.cross_zone_hits
    if cross is not None:
        table.add_row("hits across zones", f"{cross.value:,.2f} {cross.unit}", cross.reason)


def _nodes(plan: ServingPlan) -> Table:
    table = _grid()
    for name in ("Group", "Type"):
        table.add_column(name)
    for name in (
        "Count",
        "GPUs",
        "RAM for pods",
        "NVMe",
        "to L2",
        "daemons + engines",
        "USD/h each",
    ):
        table.add_column(name, justify="right")
    for group in plan.cluster.groups:
        limit = str(group.max_pods) if group.max_pods else "?"
        table.add_row(
            group.name,
            "\n".join(group.instance_types),
            str(group.count) if plan.cluster.autoscaling is None else f"0-{group.count}",
            f"{group.gpus} x {group.gpu_name}",
            format_bytes(group.allocatable_ram.value * MIB),
            format_bytes(group.nvme_bytes),
            format_bytes(group.l2_gib * GIB),
            f"{len(group.daemonset_pods)} + {group.engines_per_node} of {limit} pods",
            "unknown" if group.usd_per_hour.value is None else f"{group.usd_per_hour.value:g}",
        )
    system = plan.cluster.system_group
    table.add_row("system", system.instance_type, str(system.count), "", "", "", "", "", "")
    return table


def _endpoints_title(plan: ServingPlan) -> Text:
    vpc = plan.network.existing
    where = "" if vpc is None else f"  to be made in {vpc.vpc_id} by its owner"
    if vpc is not None and _has_private_grafana(plan):
        where += ", but for Grafana's"
    return Text.assemble(("Endpoints", "bold"), where)


def _has_private_grafana(plan: ServingPlan) -> bool:
    return plan.observability is not None and not plan.observability.grafana_public


def _endpoints(plan: ServingPlan) -> Table:
    """Name a closed network's endpoints by who calls them; those with one caller share a line."""
    callers = dict(CLOSED_ENDPOINTS)
    if _has_private_grafana(plan):
        callers |= GRAFANA_ENDPOINTS
    named: dict[str, list[str]] = {"what lies in S3 (a gateway, no interface)": ["s3"]}
    for name in sorted(callers):
        named.setdefault(callers[name], []).append(name)
    table = _grid()
    table.show_header = False
    table.add_column(style="bold")
    table.add_column(overflow="fold", style="dim")
    for caller, names in named.items():
        table.add_row(", ".join(names), caller)
    return table


def _size(figure: Figure) -> str:
    return format_bytes(figure.value)


def _usd(price: Price) -> str:
    return "unknown" if price.value is None else f"{price.value:,.2f} USD/h"


def _mib(size: ContainerSize) -> str:
    return format_bytes(size.limit_mib * MIB)
