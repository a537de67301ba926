"""Pages of metrics in Prometheus' text format, as far as counters need it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_SAMPLE: Final = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$")
_LABEL: Final = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a page."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Page:
    """All samples of one page at one moment."""

    samples: tuple[Sample, ...]

    def total(self, name: str, **labels: str) -> float:
        r"""Sum the samples of that name and those labels; 0 where there is none.

        A counter without a sample is one that has not counted yet: several of vLLM's and LMCache's
        appear only with their first event.

        >>> page = parse('a_total{x="1"} 2\na_total{x="2"} 3\n')
        >>> page.total("a_total"), page.total("a_total", x="2"), page.total("b_total")
        (5.0, 3.0, 0)
        """
        return sum(sample.value for sample in self._named(name, labels))

    def label(self, name: str, label: str) -> str | None:
        """Return a label of the first sample of that name, as an info metric carries facts.

        >>> parse('info{size="128"} 1').label("info", "size")
        '128'
        """
        for sample in self._named(name, {}):
            return sample.labels.get(label)
        return None

    def _named(self, name: str, labels: dict[str, str]) -> Iterable[Sample]:
        return (
            sample
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


def parse(text: str) -> Page:
    """Read a page; lines that are no samples are passed over."""
    found = []
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is None or line.startswith("#"):
            continue
        name, labels, value = match.groups()
        try:
            number = float(value)
        except ValueError:
            continue
        found.append(Sample(name, dict(_LABEL.findall(labels or "")), number))
    return Page(tuple(found))
