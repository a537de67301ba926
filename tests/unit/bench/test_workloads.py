"""Workloads follow from their settings alone."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from kascade.bench.text import Block, TextSource
from kascade.bench.workloads import SYNTHETIC, Shape, arrivals, make

SHAPE = Shape(
    requests=40,
    groups=4,
    turns=3,
    prefix_tokens=300,
    question_tokens=20,
    output_tokens=8,
    pause_seconds=0.5,
    rate=2.0,
    arrivals="poisson",
    seed=7,
)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_equal_settings_ask_the_same_and_a_seed_asks_otherwise(name: str) -> None:
    assert make(name, SHAPE) == make(name, SHAPE)
    assert make(name, SHAPE).digest() == make(name, SHAPE).digest()
    assert make(name, replace(SHAPE, seed=8)).digest() != make(name, SHAPE).digest()
    assert len(make(name, SHAPE).requests) == SHAPE.requests


def test_the_digest_is_the_same_on_every_machine() -> None:
    assert {name: make(name, SHAPE).digest() for name in SYNTHETIC} == {
        "shared-prefix": "ae94724915dadeae",
        "multi-turn": "4af8e6903c0f4741",
        "rag": "0a9e0d4c143b4607",
    }


def test_requests_of_one_group_share_their_prefix_and_nothing_else() -> None:
    source = TextSource(seed=7, salt="s", characters_per_token=1.0)
    prompts = [source.prompt(r.blocks) for r in make("shared-prefix", SHAPE).requests]
    prefixes = Counter(prompt[:300] for prompt in prompts)
    assert len(prefixes) == SHAPE.groups
    assert len({prompt[300:] for prompt in prompts}) == SHAPE.requests
    assert all(len(prompt) == 320 for prompt in prompts)


def test_a_popular_document_is_asked_about_more_often() -> None:
    shape = replace(SHAPE, requests=400)
    counts = Counter(r.blocks[0].key for r in make("rag", shape).requests)
    assert counts["rag/0"] > 1.5 * counts["rag/3"]


def test_each_turn_begins_with_all_that_was_said() -> None:
    requests = make("multi-turn", SHAPE).requests
    source = TextSource(seed=7, salt="s", characters_per_token=1.0)
    sessions: dict[str, list[str]] = {}
    for request in requests:
        sessions.setdefault(request.session, []).append(source.prompt(request.blocks))
    for turns in sessions.values():
        for earlier, later in pairwise(turns):
            assert later.startswith(earlier)
            assert len(later) == len(earlier) + SHAPE.output_tokens + SHAPE.question_tokens
    first = [r for r in requests if r.turn == 0]
    assert all(r.at_seconds is not None and r.pause_seconds is None for r in first)
    later_turns = [r for r in requests if r.turn]
    assert all(r.at_seconds is None and r.pause_seconds == 0.5 for r in later_turns)


def test_poisson_arrivals_have_the_rate_they_were_given() -> None:
    moments = arrivals("poisson", 4.0, 4000, seed=3)
    assert moments[0] == 0.0
    assert list(moments) == sorted(moments)
    assert 3.8 < 4000 / moments[-1] < 4.2


def test_a_salt_changes_every_text_but_no_length() -> None:
    block = Block(key="a", tokens=100)
    one = TextSource(seed=1, salt="x", characters_per_token=3.7)
    other = replace(one, salt="y")
    assert one.write(block) != other.write(block)
    assert len(one.write(block)) == len(other.write(block)) == 370


def test_the_longest_prompts_are_of_different_sessions() -> None:
    chosen = make("multi-turn", SHAPE).longest(5)
    assert len({request.session for request in chosen}) == 5
    assert {request.turn for request in chosen} == {SHAPE.turns - 1}
