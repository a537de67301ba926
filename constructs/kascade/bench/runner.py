"""A whole run: from checked settings to a result."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from kascade.bench.load import VERSION, Generator
from kascade.bench.measures import Cost, Summary, usd_per_million
from kascade.bench.phases import Phases
from kascade.bench.result import Result
from kascade.bench.settings import BenchSettings, InvalidBenchError
from kascade.bench.system import System, find_system
from kascade.bench.text import TextSource
from kascade.bench.trace import Cut, trace_workload
from kascade.bench.workloads import TRACE, Workload, make

_ROOM: Final = 0.98
"""Of the model's length, for a trace's prompts: their length in tokens is an estimate."""


def run(settings: BenchSettings, scratch: Path, tell: Callable[[str], None]) -> Result:
    """Measure what was wished for.

    Args:
        settings: Checked settings.
        scratch: An empty folder for the load generator's files.
        tell: Gets a line now and then.

    Raises:
        InvalidBenchError: The system does not answer as the target says.
        LoadError: The load generator failed.
        UnreachableError: Part of the system went away meanwhile.
    """
    options = settings.options
    problems: list[str] = []
    system = find_system(settings.target, settings.fields, problems.append)
    if system is None:
        raise InvalidBenchError(tuple(problems))
    workload = _workload(settings, system)
    longest = max(request.input_tokens + request.output_tokens for request in workload.requests)
    if longest > system.max_model_len:
        msg = (
            f"the longest request has {longest:,} tokens, the engine serves "
            f"{system.max_model_len:,}, less than planned: lower --prefix-tokens or --turns"
        )
        raise InvalidBenchError((msg,))
    started = datetime.now(UTC).isoformat(timespec="seconds")
    work = Phases(
        settings=settings,
        system=system,
        source=TextSource(
            seed=options.shape.seed,
            salt=options.salt,
            characters_per_token=system.characters_per_token,
        ),
        generator=Generator(
            program=settings.generator,
            model=settings.target.model,
            request_timeout_seconds=options.request_timeout_seconds,
            scratch=scratch,
            tenant=settings.target.tenant,
        ),
        tell=tell,
    )
    tell(f"warm-up: {options.warmup_requests} requests to each address, not counted")
    work.warm_up(workload.longest(max(1, options.warmup_requests)))
    phases, skipped = work.tiers(workload) if options.tiers else ([], {})
    if options.load:
        phases.append(work.load(workload))
    return Result(
        started=started,
        measured_on=options.measured_on,
        planned_hardware=options.planned_hardware,
        config={
            "file": options.config.name,
            "sha256": hashlib.sha256(options.config.read_bytes()).hexdigest(),
        },
        versions={
            **system.versions,
            "aiperf": VERSION,
            "kascade": version("kascade"),
            "python": platform.python_version(),
        },
        workload=_described(settings, system, workload),
        target={
            "engine": settings.target.engine,
            "model": settings.target.model,
            "replicas": [replica.name for replica in settings.target.replicas],
            "router": settings.target.router_url is not None,
        },
        objective=options.objective,
        phases=tuple(phases),
        skipped=skipped,
        cost=_cost(settings, phases[-1].summary) if options.load else None,
    )


def _workload(settings: BenchSettings, system: System) -> Workload:
    options = settings.options
    if options.workload != TRACE:
        return make(options.workload, options.shape)
    length = min(system.max_model_len, settings.engine.max_model_len)
    cut = Cut(
        requests=options.shape.requests,
        speed=options.trace_speed,
        max_model_len=int(length * _ROOM),
        max_input_tokens=options.max_input_tokens,
        max_output_tokens=options.max_output_tokens,
    )
    return trace_workload(settings.rows, cut)


def _described(settings: BenchSettings, system: System, workload: Workload) -> dict[str, object]:
    options = settings.options
    shape = dataclasses.asdict(options.shape)
    if workload.name == TRACE:
        shape = {"requests": shape["requests"], "seed": shape["seed"], "arrivals": "the trace's"}
        shape |= {"trace": options.trace.name if options.trace else None}
        shape |= {"speed": options.trace_speed}
        shape |= {"max_input_tokens": options.max_input_tokens}
        shape |= {"max_output_tokens": options.max_output_tokens}
    return {
        "name": workload.name,
        "digest": workload.digest(),
        "notes": list(workload.notes),
        "salt": options.salt,
        "tier_prompts": options.tier_prompts,
        "warmup_requests": options.warmup_requests,
        "characters_per_token": system.characters_per_token,
        "request_fields": dict(settings.fields),
        "request_timeout_seconds": options.request_timeout_seconds,
        **shape,
    }


def _cost(settings: BenchSettings, load: Summary) -> Cost:
    engine, replicas = settings.engine, len(settings.target.replicas)
    each, whole = engine.figures.usd_per_hour.value, settings.plan.usd_per_hour.value
    hourly = None if each is None else round(each * replicas, 6)
    price = "an unknown price" if each is None else f"{each:g} USD/h"
    caveat = None
    if not settings.options.planned_hardware:
        caveat = (
            f"the rates were not measured on the plan's {engine.instance_type}, so these are not "
            "what a token costs there"
        )
    tokens = load.input_tokens_per_second + load.output_tokens_per_second
    return Cost(
        engine_usd_per_hour=hourly,
        deployment_usd_per_hour=None if whole is None else round(whole, 6),
        usd_per_million_tokens=usd_per_million(hourly, tokens),
        usd_per_million_output_tokens=usd_per_million(hourly, load.output_tokens_per_second),
        price=f"{replicas} x {price} for a replica of "
        f"{engine.name} ({engine.figures.usd_per_hour.reason})",
        caveat=caveat,
    )
