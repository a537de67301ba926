"""What is known of an engine before it is sized."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kascade.catalog.instances import InstanceType
from kascade.catalog.models import REVISIONS, ModelFacts
from kascade.config.blocks import (
    InstanceGroupConfig,
    ModelConfig,
    ServingConfig,
)
from kascade.errors import ConfigPath, Problem, Remedy
from kascade.plan import (
    Price,
)
from kascade.sizing.nodes import Packing
from kascade.sizing.remedies import other_types, setting, settings

Remedies = tuple[tuple[Remedy, ...], ...]
"""Families of remedies, of each of which one member is enough."""


@dataclass(slots=True, kw_only=True)
class EngineInput:
    """What is known before an engine is sized.

    Attributes:
        index: Place of the model in the file.
        model: The model, named as this engine is.
        tenant: The one tenant whose engine it is, or None.
        packing: Where all engines of the group stand.
        usd_per_hour: Price of one instance of the group.
        l2_zones: Where the nodes of a shared pool stand.
    """

    index: int
    model: ModelConfig
    facts: ModelFacts
    group: InstanceGroupConfig
    group_index: int
    instance: InstanceType
    packing: Packing
    config: ServingConfig
    image: str
    usd_per_hour: Price
    tenant: str | None = None
    l2_zones: tuple[str, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    @property
    def revision(self) -> str | None:
        """Commit of the weights, where they are downloaded and one is known."""
        if self.model.weights.kind != "hub":
            return None
        return self.model.revision or REVISIONS.get(self.model.model)

    @property
    def tp(self) -> int:
        """Tensor parallel size."""
        return self.model.tensor_parallel

    def path(self, name: str) -> ConfigPath:
        """Path of one of the model's fields."""
        return ("models", self.index, name)

    def refuse(
        self,
        name: str,
        message: str,
        *also_reads: ConfigPath,
        remedies: Remedies = (),
        code: str = "",
    ) -> None:
        """Note a problem at one of the model's fields."""
        self.problems.append(
            Problem(
                path=self.path(name),
                message=message,
                also_reads=(*self.read_paths, *also_reads),
                remedies=remedies,
                code=code,
            )
        )

    @property
    def read_paths(self) -> tuple[ConfigPath, ...]:
        """Fields that every engine's sizing reads."""
        fields = ("model", "config_json", "tensor_parallel", "quantization", "instance_group")
        return (
            *(self.path(name) for name in fields),
            ("instance_groups", self.group_index, self.group.types_field),
        )

    def warn(self, name: str, message: str, *, remedies: Remedies = (), code: str = "") -> None:
        """Note something that deploys but deserves a look."""
        self.warnings.append(
            Problem(path=self.path(name), message=message, remedies=remedies, code=code)
        )

    def set(self, name: str, value: object) -> Remedy:
        """Set one of the model's fields, if that cures."""
        return setting(self.path(name), value)

    def more_instances(self, more: int) -> Remedy:
        """Give the group further instances."""
        path = ("instance_groups", self.group_index, "count")
        return setting(path, self.group.count + more)

    def more_replicas(self, replicas: int) -> Remedy:
        """Have some replicas, and an instance more for them."""
        path = ("instance_groups", self.group_index, "count")
        return settings({self.path("replicas"): replicas, path: self.group.count + 1})

    def other_types(self, *, fits: Callable[[InstanceType], bool]) -> tuple[Remedy, ...]:
        """Give the group another type, the cheapest that cures."""
        return other_types(self.config, self.group_index, self.group, fits=fits)

    @property
    def more_gpus(self) -> tuple[Remedy, ...]:
        """Larger tensor parallel sizes that the type and the model's heads allow."""
        return tuple(self.set("tensor_parallel", n) for n in self.parallelisms if n > self.tp)

    @property
    def parallelisms(self) -> list[int]:
        """Tensor parallel sizes that divide the model's heads and fit one instance."""
        return self.parallelisms_on(self.instance)

    def parallelisms_on(self, instance: InstanceType) -> list[int]:
        """Tensor parallel sizes that divide the model's heads and fit an instance."""
        facts = self.facts
        return [
            n
            for n in range(1, instance.gpus + 1)
            if facts.attention_heads % n == 0
            and (facts.kv_heads % n == 0 or n % facts.kv_heads == 0)
        ]
