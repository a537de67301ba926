"""What the server calls once, while it is built.

LMCache 0.5.6 never stores what is there already. So a block that cannot be opened (damaged, or of
another key) is a hit for ever: it is found, it fails, its prompt is computed, and what was computed
is not written over it, although the server counts it as stored. Here the blocks of a load that
could not be opened are deleted before the load is reported as failed, so the prompt, which is
computed next, stores all of them anew.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from .renewing import Renewing

PREFIX: Final = "kascade_cache"

Delete = Callable[[list[Any]], None]


class BuildContext(Protocol):
    """What LMCache hands over (``ExtServerModuleBuildContext``)."""

    server_context: Any
    mp_config: Any
    modules: Sequence[Any]
    config: dict[str, Any]


class Opening:
    """Stands in for the processor that opens blocks, and does all that it does."""

    def __init__(self, processor: Any, delete: Delete) -> None:
        """Stand in.

        Args:
            processor: LMCache's own (``SerdeProcessor``).
            delete: Deletes blocks from the tier that they came from.
        """
        self._processor, self._delete = processor, delete
        self._keys: dict[int, list[Any]] = {}
        self.deleted = 0

    def __getattr__(self, name: str) -> Any:
        """Everything else is the processor's."""
        return getattr(self._processor, name)

    def submit_deserialize(self, src_objs: list[Any], dst_objs: list[Any], keys: list[Any]) -> int:
        """Begin to open blocks."""
        task: int = self._processor.submit_deserialize(src_objs, dst_objs, keys)
        self._keys[task] = list(keys)
        return task

    def query_deserialize_result(self, task_id: int) -> bool | None:
        """Say whether they could be opened, None while that is not known.

        LMCache stops at the first that cannot and does not say which one it was. All of the load
        go: its prompt is computed as a whole either way, and stores them again.
        """
        result: bool | None = self._processor.query_deserialize_result(task_id)
        if result is None:
            return None
        keys = self._keys.pop(task_id, [])
        if not result and keys:
            self.deleted += len(keys)
            _say(f"a load of {len(keys)} blocks could not be opened: deleted, to be stored anew")
            try:
                self._delete(keys)
            except Exception as error:
                _say(f"they could not be deleted: {error!r}")
        return result


class Module:
    """Reports what the server does not: engines that are registered, blocks that were deleted."""

    def __init__(self, built: BuildContext) -> None:
        """Take the places of the processors, and begin to count.

        Args:
            built: The server as far as it is built: its storage is there.
        """
        self.context = built.server_context
        self._expected = int(built.mp_config.max_workers)
        self._owners = [
            module for module in built.modules if hasattr(module, "tracked_instance_count")
        ]
        self._opening: list[Opening] = []
        for _, adapter in self.context.storage_manager.l2_adapters():
            processor = getattr(adapter, "_serde", None)
            if processor is not None:
                adapter._serde = Opening(processor, adapter.delete)
                self._opening.append(adapter._serde)
        if built.config.get("opens") and not self._opening:
            _say("this LMCache opens blocks elsewhere; one that cannot be opened stays a hit")
        self._renewing = self._renew(built.config)
        self._export()

    def _renew(self, config: dict[str, Any]) -> list[Renewing]:
        directory = config.get("directory")
        if not directory:
            return []
        try:
            from lmcache.v1.distributed.l2_adapters import (  # noqa: PLC0415 - in the server alone
                fs_l2_adapter,
            )

            name_of = fs_l2_adapter._object_key_to_filename
        except (ImportError, AttributeError) as error:
            _say(f"files are not renewed when they are used, so the oldest go first: {error}")
            return []
        listening = []
        for _, adapter in self.context.storage_manager.l2_adapters():
            one = Renewing(directory, name_of, every_seconds=float(config["renew_seconds"]))
            adapter.register_listener(one)
            listening.append(one)
        return listening

    @property
    def renewed(self) -> int:
        """Files that look young again because they were loaded."""
        return sum(one.renewed for one in self._renewing)

    @property
    def registered(self) -> int:
        """GPUs of engines that may store and load."""
        return sum(owner.tracked_instance_count() for owner in self._owners)

    @property
    def deleted(self) -> int:
        """Blocks that went because their load could not be opened."""
        return sum(one.deleted for one in self._opening)

    def report_status(self) -> dict[str, Any]:
        """Part of the server's ``/status``."""
        return {
            PREFIX: {
                "registered_workers": self.registered,
                "expected_workers": self._expected,
                "opening_is_watched": len(self._opening),
                "unopened_blocks_deleted": self.deleted,
                "files_renewed": self.renewed,
            }
        }

    def close(self) -> None:
        """Nothing is held."""

    def _export(self) -> None:
        from opentelemetry import metrics  # noqa: PLC0415 - there in the server alone

        meter = metrics.get_meter(PREFIX)

        def reading(value: Callable[[], int]) -> list[Callable[[Any], list[Any]]]:
            return [lambda _: [metrics.Observation(value())]]

        meter.create_observable_gauge(
            f"{PREFIX}.registered_workers",
            callbacks=reading(lambda: self.registered),
            description="GPUs of engines that the server knows; others can neither store nor load.",
        )
        meter.create_observable_gauge(
            f"{PREFIX}.expected_workers",
            callbacks=reading(lambda: self._expected),
            description="GPUs of the engine beside it.",
        )
        meter.create_observable_counter(
            f"{PREFIX}.unopened_blocks",
            callbacks=reading(lambda: self.deleted),
            description="Blocks deleted because their load could not be opened.",
        )
        meter.create_observable_counter(
            f"{PREFIX}.renewed_files",
            callbacks=reading(lambda: self.renewed),
            description="Files that look young again because their block was loaded.",
        )


def build_server_modules(built: BuildContext) -> Module:
    """Make the module, as LMCache asks for it.

    Args:
        built: The server as far as it is built.
    """
    return Module(built)


def _say(sentence: str) -> None:
    print(f"kascade: {sentence}", file=sys.stderr, flush=True)  # noqa: T201 - the container's log
