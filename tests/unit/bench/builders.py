"""A result by hand."""

from dataclasses import replace

from kascade.bench.load import Sample
from kascade.bench.measures import Cost, Objective, summarize
from kascade.bench.result import LOAD, Phase, Result
from kascade.bench.tiers import Served

OBJECTIVE = Objective(ttft_seconds=0.5, itl_seconds=0.1)


def phase(name: str, ttft_ms: list[float], served: Served, **changes: object) -> Phase:
    samples = tuple(
        Sample(
            phase=name,
            session=f"s{number}",
            turn=0,
            start_seconds=float(number),
            ttft_seconds=value / 1000,
            itl_seconds=0.02,
            longest_gap_seconds=0.03,
            e2e_seconds=value / 1000 + 0.2,
            input_tokens=6000,
            output_tokens=11,
            error=None,
        )
        for number, value in enumerate(ttft_ms)
    )
    whole = Phase(
        name=name,
        where="tiny-0",
        how="as it is",
        served=served,
        by_replica={"tiny-0": served},
        samples=samples,
        summary=summarize(samples, OBJECTIVE),
        flaw=None,
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def result(*, factor: float = 1.0) -> Result:
    cold = [factor * value for value in (2000, 2100, 2200, 1900, 2050)]
    load = [factor * (100 + 7 * number) for number in range(30)]
    return Result(
        started="2026-01-02T03:04:05+00:00",
        measured_on="2 cores <script>alert(1)</script>",
        planned_hardware=False,
        config={"file": "laptop.yaml", "sha256": "0" * 64},
        versions={"vllm": "0.32.0", "kascade": "0.1.0"},
        workload={"name": "rag", "digest": "d1", "notes": ["cut & dried"], "salt": "s"},
        target={"engine": "tiny", "model": "m", "replicas": ["tiny-0"], "router": True},
        objective=OBJECTIVE,
        phases=(
            phase("cold", cold, Served(computed=30_000, l0=0, l1=0, l2=0)),
            phase("l2", [400, 410, 430], Served(computed=400, l0=0, l1=0, l2=17_600)),
            phase(LOAD, load, Served(computed=9000, l0=3000, l1=2000, l2=1000)),
        ),
        skipped={"l1": "L0 cannot be emptied"},
        cost=Cost(
            engine_usd_per_hour=3.722,
            deployment_usd_per_hour=4.23,
            usd_per_million_tokens=0.25 * factor,
            usd_per_million_output_tokens=20.0 * factor,
            price="2 x 1.861 USD/h",
            caveat="not the plan's hardware",
        ),
    )
