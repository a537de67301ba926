"""The inventory against what the components really expose."""

import re
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from kascade.observability.metrics import (
    INVENTORY,
    Component,
    Kind,
    Metric,
    Source,
    exposed_names,
)
from kascade.programs.janitor.settings import JanitorSettings
from kascade.programs.janitor.tally import Tally

DATA = Path(__file__).parents[2] / "data" / "metrics"
PAGES = {
    Component.VLLM: ("vllm-0.32.0.txt",),
    Component.LMCACHE: ("lmcache-0.5.6-writer.txt", "lmcache-0.5.6-reader.txt"),
    Component.JANITOR: ("janitor.txt",),
}
LISTS = {
    Component.LMCACHE: "lmcache-0.5.6-after-events.names",
    Component.ROUTER: "router-0.1.17.names",
    Component.CURVINE_MASTER: "curvine-master-0.4.1.names",
    Component.CURVINE_WORKER: "curvine-worker-0.4.1.names",
    Component.CURVINE_FUSE: "curvine-fuse-0.4.1.names",
}


def recorded(component: Component) -> dict[str, str]:
    """Type by family name, from the recorded pages."""
    text = "\n".join((DATA / page).read_text() for page in PAGES[component])
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, flags=re.MULTILINE))


def listed(component: Component) -> set[str]:
    names = (DATA / LISTS[component]).read_text().split()
    prefix = component.value.replace("-", "_")
    bare = component in (Component.CURVINE_MASTER, Component.CURVINE_WORKER)
    return {f"{prefix}_{name}" if bare else name for name in names}


def by_source(source: Source) -> list[ParameterSet]:
    return [pytest.param(m, id=m.name) for m in INVENTORY if m.source is source]


@pytest.mark.parametrize("metric", by_source(Source.RECORDED))
def test_recorded_name_stands_on_a_real_page_with_its_type(metric: Metric) -> None:
    assert recorded(metric.component)[metric.name] == metric.kind.value


@pytest.mark.parametrize("metric", by_source(Source.RECORDED))
def test_recorded_labels_are_those_of_the_page(metric: Metric) -> None:
    text = "\n".join((DATA / page).read_text() for page in PAGES[metric.component])
    series = "|".join(map(re.escape, exposed_names(metric)))
    sample = re.search(rf"^(?:{series})(?:\{{(.*)\}})? ", text, flags=re.MULTILINE)
    assert sample is not None
    labels = set(re.findall(r'(\w+)="', sample[1] or "")) - {"le"}
    assert labels == set(metric.labels)


@pytest.mark.parametrize("metric", by_source(Source.LISTED))
def test_listed_name_stands_in_its_list(metric: Metric) -> None:
    assert metric.name in listed(metric.component)


def test_the_janitors_page_is_the_one_it_writes_today() -> None:
    settings = JanitorSettings(directory="/d", marker=".m", high_bytes=2, low_bytes=1)
    assert (DATA / "janitor.txt").read_text() == Tally(settings=settings).page()


def test_names_are_unique() -> None:
    names = [metric.name for metric in INVENTORY]
    assert len(set(names)) == len(names)


def test_a_histogram_is_exposed_as_three_series() -> None:
    histogram = next(metric for metric in INVENTORY if metric.kind is Kind.HISTOGRAM)
    assert exposed_names(histogram) == (
        f"{histogram.name}_bucket",
        f"{histogram.name}_count",
        f"{histogram.name}_sum",
    )
