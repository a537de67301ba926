"""The phases of a benchmark: what is sent where, between two readings of the counters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kascade.bench import client
from kascade.bench.client import UnreachableError
from kascade.bench.load import OPENER, Generator, Request
from kascade.bench.measures import summarize
from kascade.bench.result import LOAD, Phase
from kascade.bench.settings import BenchSettings
from kascade.bench.system import System
from kascade.bench.text import Block, TextSource
from kascade.bench.tiers import Served, served, verdict
from kascade.bench.workloads import Planned, Workload
from kascade.programs.verify.target import Replica

_OPENER_TOKENS: Final = 8
_OPENER_SECONDS: Final = 1.0
"""The load starts this long after the request that opens connections."""

_FILL_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Runs phases against one system.

    Attributes:
        tell: Gets a line now and then.
    """

    settings: BenchSettings
    system: System
    source: TextSource
    generator: Generator
    tell: Callable[[str], None]

    def phase(
        self, name: str, urls: Sequence[str], where: str, how: str, requests: Sequence[Request]
    ) -> Phase:
        """Send the requests between two readings of the counters."""
        self.tell(f"{name}: {len(requests)} requests to {where}")
        opener = Request(
            session=OPENER,
            at_seconds=0.0,
            pause_seconds=None,
            payload=self.system.payload(
                self.source.write(Block(key=f"{OPENER}/{name}", tokens=_OPENER_TOKENS)), 1
            ),
        )
        before = self.system.counted_at_rest()
        sent = self.generator.send(name, urls, [opener, *requests], self.tell)
        samples = tuple(sample for sample in sent if sample.session != OPENER)
        flaw: str | None = None
        by_replica: dict[str, Served] = {}
        try:
            after = self.system.counted_at_rest()
            by_replica = {r: served(after[r].since(before[r])) for r in after}
        except (UnreachableError, ValueError) as error:
            flaw = f"no counters of it: {error}"
        together = sum(by_replica.values(), Served(computed=0, l0=0, l1=0, l2=0))
        if name != LOAD and flaw is None:
            flaw = verdict(
                name,
                together,
                [sample.input_tokens for sample in sent],
                chunk_size=self.system.target.chunk_size,
                block_size=self.system.l0.block_size if self.system.l0 else 1,
            )
        if flaw:
            self.tell(f"{name}: not what it is named after: {flaw}")
        return Phase(
            name=name,
            where=where,
            how=how,
            served=together,
            by_replica=by_replica,
            samples=samples,
            summary=summarize(samples, self.settings.options.objective),
            flaw=flaw,
        )

    def warm_up(self, requests: Sequence[Planned]) -> None:
        """Send prompts of the workload's lengths that nobody counts or repeats."""
        options = self.settings.options
        urls = sorted({*self.system.urls, *(r.engine_url for r in self.system.target.replicas)})
        for place, url in enumerate(urls):
            for number in range(options.warmup_requests):
                request = _renamed(requests[number % len(requests)], f"warm/{place}/{number}")
                client.complete(
                    url,
                    self.system.payload(self.source.prompt(request.blocks), request.output_tokens),
                    timeout_seconds=options.request_timeout_seconds,
                    tenant=self.system.target.tenant,
                )

    def tiers(self, workload: Workload) -> tuple[list[Phase], dict[str, str]]:
        """Isolate where a prefix comes from: cold first, then from ever farther away."""
        options, replicas = self.settings.options, self.system.target.replicas
        requests = self._serial(workload.longest(options.tier_prompts))
        home = replicas[0]
        skipped: dict[str, str] = {}
        phases = [self._at(home, "cold", "prompts that nobody sent before", requests)]
        if "l0" in options.tiers:
            phases.append(self._at(home, "l0", "the same prompts again, same replica", requests))
        settled = self.system.settle(home)
        late = "" if settled else "; stores into L2 had not ended after a minute"
        if "l1" in options.tiers:
            try:
                self.tell("l1: making L0 let go")
                at_once = min(_FILL_AT_ONCE, self.settings.engine.max_num_seqs)
                how = self.system.empty_l0(
                    home, self.source, at_once, options.request_timeout_seconds
                )
                phases.append(self._at(home, "l1", f"same replica, {how}{late}", requests))
            except UnreachableError as error:
                skipped["l1"] = str(error)
        if "l2" in options.tiers:
            if len(replicas) > 1:
                how = f"the other replica, which never saw them{late}"
                phases.append(self._at(replicas[1], "l2", how, requests))
            else:
                skipped["l2"] = "the target names one replica, and L2 shows at a second one"
        return phases, skipped

    def _at(self, replica: Replica, name: str, how: str, requests: Sequence[Request]) -> Phase:
        return self.phase(name, [replica.engine_url], replica.name, how, requests)

    def _serial(self, requests: Sequence[Planned]) -> list[Request]:
        """One request after the other, so that no queue is measured."""
        return [
            Request(
                session="serial",
                at_seconds=_OPENER_SECONDS if number == 0 else None,
                pause_seconds=0.0 if number else None,
                payload=self._payload(_renamed(request, f"tier/{number}")),
            )
            for number, request in enumerate(requests)
        ]

    def load(self, workload: Workload) -> Phase:
        """Run the workload itself, at its own moments."""
        requests = [
            Request(
                session=request.session,
                at_seconds=(
                    None
                    if request.at_seconds is None
                    else round(request.at_seconds + _OPENER_SECONDS, 6)
                ),
                pause_seconds=request.pause_seconds,
                payload=self._payload(request),
            )
            for request in workload.requests
        ]
        where = "the router" if self.system.target.router_url else "all replicas in turn"
        return self.phase(LOAD, self.system.urls, where, f"the workload {workload.name}", requests)

    def _payload(self, request: Planned) -> dict[str, object]:
        return self.system.payload(self.source.prompt(request.blocks), request.output_tokens)


def _renamed(request: Planned, prefix: str) -> Planned:
    blocks = tuple(Block(key=f"{prefix}/{b.key}", tokens=b.tokens) for b in request.blocks)
    return dataclasses.replace(request, blocks=blocks)
