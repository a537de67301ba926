"""Which tier served what, on pages recorded from real engines and cache servers."""

from pathlib import Path

import pytest

from kascade.bench.pages import Counters, counters, l0_size, stores
from kascade.bench.tiers import Served, served, verdict
from kascade.programs.verify.metrics import parse

PAGES = Path(__file__).parents[2] / "data" / "metrics"
VLLM = (PAGES / "vllm-0.32.0.txt").read_text()
READER = (PAGES / "lmcache-0.5.6-reader.txt").read_text()
WRITER = (PAGES / "lmcache-0.5.6-writer.txt").read_text()
GRANULES = {"chunk_size": 256, "block_size": 128}


def test_the_recorded_pages_split_as_the_run_behind_them_did() -> None:
    """Six requests: L2's own counter includes what L0 served, and vLLM's bounds it."""
    counted = counters(VLLM, READER)
    assert counted.prompt == 26_100
    assert counted.l2_lookup_hits == 18_176
    assert served(counted) == Served(computed=7_924, l0=5_888, l1=0, l2=12_288)


def test_every_part_is_what_vllm_says_itself_by_source() -> None:
    by_source = {
        sample.labels["source"]: sample.value
        for sample in parse(VLLM).samples
        if sample.name == "vllm:prompt_tokens_by_source_total"
    }
    split = served(counters(VLLM, READER))
    assert by_source["local_compute"] == split.computed
    assert by_source["local_cache_hit"] == split.l0
    assert by_source["external_kv_transfer"] == split.l1 + split.l2


def test_a_writers_stores_are_settled_when_all_are_done() -> None:
    found = stores(WRITER)
    assert found.submitted == found.completed > 0
    assert found.settled


def test_the_engine_says_how_large_its_cache_is() -> None:
    size = l0_size(VLLM)
    assert size is not None
    assert (size.tokens, size.block_size) == (131_072, 128)
    assert l0_size("# nothing") is None


def test_a_series_that_has_not_happened_counts_nothing() -> None:
    assert counters("", "") == Counters()


def test_a_counter_that_fell_is_a_restart() -> None:
    before = Counters(prompt=10, l0_hits=5)
    with pytest.raises(ValueError, match=r"went down \(l0_hits\): an engine or cache"):
        Counters(prompt=20, l0_hits=0).since(before)


def test_what_l1_had_is_what_the_connector_loaded_beyond_l2() -> None:
    split = served(Counters(prompt=6000, external_hits=5888, l2_lookup_hits=2048))
    assert split == Served(computed=112, l0=0, l1=3840, l2=2048)


@pytest.mark.parametrize(
    ("phase", "tokens"),
    [
        ("cold", Served(computed=6000, l0=0, l1=0, l2=0)),
        ("l0", Served(computed=112, l0=5888, l1=0, l2=0)),
        ("l1", Served(computed=112, l0=0, l1=5888, l2=0)),
        ("l2", Served(computed=112, l0=0, l1=0, l2=5888)),
    ],
)
def test_a_phase_served_by_its_tier_has_no_flaw(phase: str, tokens: Served) -> None:
    assert verdict(phase, tokens, [6000], **GRANULES) is None


@pytest.mark.parametrize(
    ("phase", "tokens", "prompts", "words"),
    [
        ("cold", Served(computed=112, l0=0, l1=0, l2=5888), [6000], "other tiers served part"),
        ("l1", Served(computed=112, l0=5888, l1=0, l2=0), [6000], "L0 98%"),
        (
            "l2",
            Served(computed=6000, l0=0, l1=0, l2=0),
            [6000],
            "L2 served 0 prompt tokens of 5,888",
        ),
        ("l2", Served(computed=200, l0=0, l1=0, l2=0), [200], "shorter than what L2 keeps"),
        ("l0", Served(computed=0, l0=0, l1=0, l2=0), [], "counted no prompt token"),
        ("l0", Served(computed=112, l0=5888, l1=0, l2=0), [6000, 6000], "something else used it"),
    ],
)
def test_any_other_phase_says_why(
    phase: str, tokens: Served, prompts: list[int], words: str
) -> None:
    flaw = verdict(phase, tokens, prompts, **GRANULES)
    assert flaw is not None
    assert words in flaw
