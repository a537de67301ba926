"""The verification itself: one replica computes a prompt, another one answers from what it stored.

The order matters. All replicas are warm before anything is timed. A writer's stores have ended
before its reader is asked, since LMCache stores after it has answered. Every prompt is used for one
pair only, so nothing but L2 can know it when its reader is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .client import Answer, UnreachableError, chat, complete
from .counters import SETTLE_SECONDS, await_stored, cache_page, engine_page, fetched, settled_pages
from .facts import Facts, observe
from .prompt import WARM_WORDS, whole_chunks, words, words_for
from .reading import EXTERNAL_HITS, LOCAL_HITS, PROMPT_TOKENS, Listing, Look, Reading, Seen, delta
from .target import Replica, Target

FEWEST_REPLICAS: Final = 2
_ATTEMPTS: Final = 3
"""A busy replica moves the counters too, and on a GPU a prefix that was loaded and one that was
computed may round differently: a fresh prompt settles both."""


class UnusableError(Exception):
    """The verification cannot even begin; the text is a sentence that says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """How to verify.

    Attributes:
        seed: Of all prompts.
        prompt_tokens: About how long a prompt is; the model's limit may shorten it.
        output_tokens: Tokens that both replicas generate and that are compared.
        ttft_ratio: Time to the first token of the reader over that of the writer at which the
            check fails, or None to measure without judging.
        router_policy: The router's own word for its policy, or None where it is unknown.
        request_seconds: Deadline of one request.
        store_seconds: Deadline of storing one prompt in L2.
    """

    seed: int
    prompt_tokens: int = 6000
    output_tokens: int = 8
    ttft_ratio: float | None = 0.8
    router_policy: str | None = None
    request_seconds: float = 300.0
    store_seconds: float = 60.0


class Verification:
    """The requests of one run, in order."""

    def __init__(
        self,
        target: Target,
        settings: VerifyOptions,
        *,
        look: Look | None,
        say: Callable[[str], None],
    ) -> None:
        """Begin a run.

        Args:
            target: The engine.
            settings: How to verify.
            look: Lists the directory of L2 as a replica sees it, or None where nobody can.
            say: Tells a waiting person what happens.

        Raises:
            UnusableError: There are fewer than two replicas, or one that gives no answer.
        """
        if len(target.replicas) < FEWEST_REPLICAS:
            names = ", ".join(replica.name for replica in target.replicas) or "none"
            msg = (
                f"{target.engine} has {len(target.replicas)} ready replicas ({names}) and a proof "
                "needs two, one that computes and one that reads; raise models.replicas or wait "
                "until they are ready"
            )
            raise UnusableError(msg)
        self.target = target
        self.settings = settings
        self._look = look
        self.say = say
        self._tokens_a_word = 1.0
        self._limit = 0
        self._prompts = 0
        self.facts = {replica.name: self._observe(replica) for replica in target.replicas}

    @property
    def prompt_tokens(self) -> int:
        """Tokens of a prompt, as far as the warm-up tells."""
        return min(self.settings.prompt_tokens, self._limit)

    def warm_up(self) -> None:
        """Let every replica answer once, and learn how many tokens a word has.

        Raises:
            UnusableError: A replica does not answer, or a prompt of one chunk does not fit.
        """
        longest = min(facts.engine.max_model_len for facts in self.facts.values())
        self._limit = longest - self.settings.output_tokens
        least = self.target.chunk_size + 1
        for given, what, change in (
            (self._limit, f"{self.target.engine} takes requests of", "raise max_model_len"),
            (self.settings.prompt_tokens, "the prompt was to have", "ask for more with --tokens"),
        ):
            if given < least:
                msg = (
                    f"{what} {given} tokens, but only whole chunks of {self.target.chunk_size} "
                    f"tokens are cached and {least} are needed for one; {change}"
                )
                raise UnusableError(msg)
        count = min(WARM_WORDS, max(1, self._limit // 20))
        for replica in self.target.replicas:
            self.say(f"warming up {replica.name}")
            text = words(self.settings.seed, f"warm-up of {replica.name}", count)
            try:
                answer = self._complete(replica.engine_url, text)
            except UnreachableError as error:
                msg = f"replica {replica.name} does not serve: {error}"
                raise UnusableError(msg) from None
            self._tokens_a_word = answer.prompt_tokens / count
        for replica in self.target.replicas:
            await_stored(replica, None, 0, seconds=SETTLE_SECONDS, say=self.say)
            # An engine registers with its server at its first request at the latest.
            self.facts[replica.name] = self._observe(replica)

    def read_what_was_written(self, writer: Replica, reader: Replica) -> Reading:
        """Let one replica compute and another one read; again where that said nothing."""
        for attempt in range(1, _ATTEMPTS + 1):
            reading = self._read_once(writer, reader)
            other = reading.hit and not reading.same_tokens
            if attempt == _ATTEMPTS or not (reading.disturbed or other):
                break
            why = "answered differently" if other else "took requests of others as well"
            self.say(f"{reader.name} {why}: once more with a fresh prompt")
        return reading

    def fresh_prompt(self) -> str:
        """Write a prompt that this run has not used yet."""
        self._prompts += 1
        count = words_for(
            self.settings.prompt_tokens, tokens_a_word=self._tokens_a_word, limit=self._limit
        )
        return words(self.settings.seed, f"prompt {self._prompts}", count)

    def ask(self, url: str, prompt: str) -> Answer:
        """Let a replica, or whichever one a router chooses, complete a prompt."""
        return self._complete(url, prompt)

    def ask_as(self, tenant: str | None, url: str, prompt: str) -> Answer:
        """Let a replica complete a prompt of another tenant, or of none."""
        return self._send(url, prompt, tenant)

    def chat(self, url: str) -> None:
        """Let a router answer a turn of a chat that nobody has sent yet."""
        self._prompts += 1
        chat(
            url,
            model=self.target.model,
            text=words(self.settings.seed, f"chat {self._prompts}", WARM_WORDS),
            seconds=self.settings.request_seconds,
            tenant=self.target.tenant,
        )

    def _complete(self, url: str, prompt: str) -> Answer:
        return self._send(url, prompt, self.target.tenant)

    def _send(self, url: str, prompt: str, tenant: str | None) -> Answer:
        return complete(
            url,
            model=self.target.model,
            prompt=prompt,
            tokens=self.settings.output_tokens,
            seconds=self.settings.request_seconds,
            tenant=tenant,
        )

    def _observe(self, replica: Replica) -> Facts:
        try:
            return observe(replica, self.target.model)
        except UnreachableError as error:
            msg = f"replica {replica.name} cannot be asked: {error}"
            raise UnusableError(msg) from None

    def _read_once(self, writer: Replica, reader: Replica) -> Reading:
        prompt = self.fresh_prompt()
        seen_before = self._listing(reader)
        stored_before, writer_before = cache_page(writer), engine_page(writer)
        self.say(f"{writer.name} computes prompt {self._prompts}")
        try:
            wrote = self._complete(writer.engine_url, prompt)
        except UnreachableError as error:
            msg = f"replica {writer.name} does not serve: {error}"
            raise UnusableError(msg) from None
        chunks = whole_chunks(wrote.prompt_tokens, self.target.chunk_size)
        stored = None
        if stored_before is not None:
            stored = await_stored(
                writer,
                stored_before,
                chunks,
                seconds=self.settings.store_seconds,
                say=self.say,
            )
        seen_after = self._listing(reader)
        writer_after = engine_page(writer)
        before, cache_before = engine_page(reader), cache_page(reader)
        self.say(f"{reader.name} is asked for it")
        read: Answer | None = None
        failure = ""
        try:
            read = self._complete(reader.engine_url, prompt)
        except UnreachableError as error:
            failure = str(error)
        tokens = read.prompt_tokens if read else 0
        after = settled_pages([reader], {reader.name: before}, tokens)[reader.name]
        cache_after = cache_page(reader)
        return Reading(
            writer=self.facts[writer.name],
            reader=self.facts[reader.name],
            chunk_size=self.target.chunk_size,
            stored=stored,
            fetched=fetched(cache_before, cache_after),
            seen=None
            if seen_before is None or seen_after is None
            else Seen(seen_before, seen_after),
            wrote=wrote,
            read=read,
            failure=failure,
            external_hits=delta(before, after, EXTERNAL_HITS),
            local_hits=delta(before, after, LOCAL_HITS),
            writer_hits=delta(writer_before, writer_after, EXTERNAL_HITS)
            + delta(writer_before, writer_after, LOCAL_HITS),
            writer_tokens=delta(writer_before, writer_after, PROMPT_TOKENS),
            reader_tokens=delta(before, after, PROMPT_TOKENS),
        )

    def _listing(self, replica: Replica) -> Listing | None:
        if self._look is None or self.facts[replica.name].cache is None:
            return None
        found = self._look(self.facts[replica.name])
        if isinstance(found, str):
            self.say(found)
            self._look = None
            return None
        return found
