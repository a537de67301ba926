"""Text of a wanted length, the same from the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache

_SYLLABLES = [first + second for first in "bdfgklmnprstvw" for second in "aeiou"]
_LONGEST_WORD = 4
"""Syllables; made-up words of such a length cost real tokenizers about as much as prose does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A stretch of text that has its content from its key: equal keys, equal text.

    Attributes:
        key: Names the content.
        tokens: Wanted length; two blocks of one key but other lengths share their beginning.
    """

    key: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSource:
    """Writes blocks out.

    Attributes:
        seed: Of the whole run.
        salt: Changes every text and nothing else, so that a second run finds no warm cache.
        characters_per_token: What the engine's tokenizer makes of such text.
    """

    seed: int
    salt: str
    characters_per_token: float

    def write(self, block: Block) -> str:
        """Return the block's text.

        >>> source = TextSource(seed=1, salt="", characters_per_token=4.0)
        >>> long, short = (source.write(Block(key="a", tokens=n)) for n in (8, 4))
        >>> len(long), len(short), long.startswith(short)
        (32, 16, True)
        """
        length = max(1, round(block.tokens * self.characters_per_token))
        return _letters(f"{self.seed}/{self.salt}/{block.key}", length)

    def prompt(self, blocks: tuple[Block, ...]) -> str:
        """Return the text of a whole prompt."""
        return "".join(self.write(block) for block in blocks)


@lru_cache(maxsize=4096)
def _letters(key: str, length: int) -> str:
    # A string seeds through SHA-512, the same on every machine and every Python. Words come one
    # after the other, so a longer text of the same key begins with the shorter one.
    draw = random.Random(key)  # noqa: S311  (text, not secrets)
    words: list[str] = []
    size = 0
    while size < length:
        word = " " + "".join(draw.choices(_SYLLABLES, k=draw.randint(1, _LONGEST_WORD)))
        words.append(word)
        size += len(word)
    return "".join(words)[:length]
