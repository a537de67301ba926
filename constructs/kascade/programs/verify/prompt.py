"""Prompts that nobody has sent before and that anybody can send again."""

from __future__ import annotations

import random
import string
from typing import Final

WARM_WORDS: Final = 120
"""Enough to run the engine's kernels once and to learn how many tokens a word has."""

_SHORTEST: Final = 2
_LONGEST: Final = 9

_SPARE: Final = 0.95
"""Words have different numbers of tokens, so a prompt is planned a little short of the limit."""


def words(seed: int, purpose: str, count: int) -> str:
    """Write a prompt of random words.

    Random, because the hash of every chunk depends on all that is before it: two runs, or two
    purposes of one run, share not even their first chunk, and no cache can know the prompt.

    Args:
        seed: Of the run.
        purpose: What the prompt is for.
        count: Number of words.

    >>> words(1, "a", 3) == words(1, "a", 3), words(1, "a", 3) == words(1, "b", 3)
    (True, False)
    """
    chance = random.Random(f"{seed}/{purpose}")  # noqa: S311 - not for secrets
    return " ".join(
        "".join(
            chance.choice(string.ascii_lowercase)
            for _ in range(chance.randint(_SHORTEST, _LONGEST))
        )
        for _ in range(count)
    )


def words_for(tokens: int, *, tokens_a_word: float, limit: int) -> int:
    """Say how many words make a prompt of about ``tokens`` tokens, below ``limit`` for certain.

    >>> words_for(6000, tokens_a_word=6.0, limit=8192), words_for(6000, tokens_a_word=6, limit=3000)
    (1000, 475)
    """
    return max(1, int(min(tokens, limit * _SPARE) / tokens_a_word))


def whole_chunks(prompt_tokens: int, chunk_size: int) -> int:
    """Count the chunks of a prompt that a cache can give back.

    The engine has to compute one token at least to have something to sample from, so a prompt that
    ends with a chunk loses that one.

    >>> whole_chunks(6000, 256), whole_chunks(512, 256), whole_chunks(256, 256)
    (23, 1, 0)
    """
    return max(0, prompt_tokens - 1) // chunk_size
