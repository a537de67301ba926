"""What is known of an engine before it is sized."""

from __future__ import annotations

from dataclasses import dataclass, field

from kascade.catalog.instances import InstanceType
from kascade.catalog.models import REVISIONS, ModelFacts
from kascade.config.model import (
    InstanceGroupConfig,
    ModelConfig,
    ServingConfig,
)
from kascade.errors import ConfigPath, Problem
from kascade.sizing.nodes import Packing
from kascade.sizing.plan import (
    Price,
)


@dataclass(slots=True, kw_only=True)
class EngineInput:
    """What is known before an engine is sized.

    Attributes:
        index: Place of the model in the file.
        model: The model, named as this engine is.
        tenant: The one tenant whose engine it is, or None.
        packing: Where all engines of the group stand.
        usd_per_hour: Price of one instance of the group.
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

    def refuse(self, name: str, message: str, *also_reads: ConfigPath) -> None:
        """Note a problem at one of the model's fields."""
        self.problems.append(
            Problem(
                path=self.path(name), message=message, also_reads=(*self.read_paths, *also_reads)
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

    def warn(self, name: str, message: str) -> None:
        """Note something that deploys but deserves a look."""
        self.warnings.append(Problem(path=self.path(name), message=message))
