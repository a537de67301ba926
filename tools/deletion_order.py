"""What it costs to delete shared blocks by their age, on a trace: age since writing, or since use.

    python -m tools.deletion_order traces/mooncake_conversation.jsonl

Two engines, each with an L1 of 2 % of all blocks (least recently used), over one L2. A request
takes the longest prefix that its engine or L2 holds and writes the rest, except for what L2 holds
already, as LMCache does. L2 deletes what looks oldest, above a size (the janitor) or an age
(Curvine); a block that was loaded from L2 looks young again, or does not.
"""

from __future__ import annotations

import sys
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kascade.bench.trace import Row, read_trace

ENGINES: Final = 2
L1_SHARE: Final = 0.02
SHARES: Final = (0.05, 0.1, 0.25, 0.5)
_ALL: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The rule of an L2.

    Attributes:
        blocks: How many it holds.
        seconds: How old a block may look.
        renews: Whether a load makes it look young.
    """

    blocks: int = _ALL
    seconds: float = float("inf")
    renews: bool


def blocks_of(rows: Sequence[Row]) -> int:
    """Count the different blocks of a trace."""
    return len({block for row in rows for block in row.hash_ids})


def hit_rate(rows: Sequence[Row], rule: Shared) -> float:
    """Replay a trace; return the share of all blocks that an L1 or L2 had.

    Args:
        rows: The trace.
        rule: Of its L2.
    """
    room = max(1, int(blocks_of(rows) * L1_SHARE))
    engines: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(ENGINES)]
    # Block to when it was written or renewed; the oldest first.
    shared: OrderedDict[int, float] = OrderedDict()
    asked = hits = 0
    for row in rows:
        now = row.timestamp_ms / 1000
        while shared and now - next(iter(shared.values())) >= rule.seconds:
            shared.popitem(last=False)
        asked += len(row.hash_ids)
        own = engines[_engine_of(row)]
        found = True
        for block in row.hash_ids:
            found = found and (block in own or block in shared)
            hits += found
            if found and block not in own and rule.renews:
                del shared[block]
            if block not in own or not found:
                shared.setdefault(block, now)
            own[block] = None
            own.move_to_end(block)
            if len(own) > room:
                own.popitem(last=False)
        while len(shared) > rule.blocks:
            shared.popitem(last=False)
    return hits / max(1, asked)


def _engine_of(row: Row) -> int:
    """One that a conversation keeps: the first block is the system prompt of many."""
    first = row.hash_ids[min(1, len(row.hash_ids) - 1)]
    return zlib.crc32(str(first).encode()) % ENGINES


def table(rows: Sequence[Row]) -> list[tuple[str, float, float]]:
    """Return hit rates by age since writing and by age since use, for some sizes and ages."""
    blocks, span = blocks_of(rows), (rows[-1].timestamp_ms - rows[0].timestamp_ms) / 1000
    rules = [(f"{share:.0%} of all blocks", {"blocks": int(blocks * share)}) for share in SHARES]
    ages = [(f"{share:.0%} of the time", {"seconds": span * share}) for share in SHARES]
    return [
        (
            name,
            hit_rate(rows, Shared(**bound, renews=False)),  # type: ignore[arg-type]
            hit_rate(rows, Shared(**bound, renews=True)),  # type: ignore[arg-type]
        )
        for name, bound in [*rules, *ages]
    ]


def main() -> int:
    """Print the table of each trace."""
    for name in sys.argv[1:]:
        rows = read_trace(Path(name), _ALL)
        print(name)
        for bound, written, used in table(rows):
            print(f"  {bound:22} since writing {written:6.1%}  since use {used:6.1%}")
        print(f"  {'without a bound':22} {hit_rate(rows, Shared(renews=False)):6.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
