"""A configuration on its way to a plan: what is known of it, and what is wrong with it so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kascade.catalog.images import IMAGES, health_agent_image
from kascade.catalog.instances import INSTANCES, PRICE_DATE, PRICE_REGION, InstanceType
from kascade.catalog.models import ModelFacts
from kascade.config.blocks import (
    CurvineConfig,
    DirectoryConfig,
    InstanceGroupConfig,
    JanitorConfig,
    ModelConfig,
    ServingConfig,
)
from kascade.config.dependencies import DependenciesChart
from kascade.config.zone_offerings import ZoneOfferings
from kascade.errors import Problem
from kascade.plan import (
    Namespaces,
    Price,
)
from kascade.sizing import pool
from kascade.sizing.instances import in_common
from kascade.sizing.nodes import Packing, pack


@dataclass(slots=True, kw_only=True)
class Group:
    """A group of the file with what is known of its type and engines.

    Attributes:
        instance: Its type; of several, what every one of them has at least.
        types: Every type its instances may have, the preferred first.
    """

    index: int
    config: InstanceGroupConfig
    instance: InstanceType
    types: tuple[InstanceType, ...]
    packing: Packing = field(default_factory=lambda: pack((), nodes=0, gpus_per_node=0))
    capacity_gib: int = 0

    def price_in(self, region: str) -> Price:
        """Price of one instance in a region."""
        if self.config.usd_per_hour is not None:
            return Price(value=self.config.usd_per_hour, unit="USD/h", reason="as configured")
        price = self.instance.usd_per_hour
        dearest = f"the dearest of {self.instance.name}: " if len(self.types) > 1 else ""
        if price is None:
            return Price(
                value=None,
                unit="USD/h",
                reason=f"unknown: no public price of {self.instance.name} is known; set "
                "usd_per_hour in the group",
            )
        return Price(
            value=price,
            unit="USD/h",
            reason=f"{dearest}EC2 on demand, {PRICE_REGION}{elsewhere(region)}, {PRICE_DATE}; "
            "HyperPod's own price may be 15 to 40 % higher",
        )


def elsewhere(region: str) -> str:
    """Say that the catalog's prices are another region's.

    >>> elsewhere("us-east-1"), elsewhere("eu-west-1")
    ('', ' (that of eu-west-1 is not known here)')
    """
    return "" if region == PRICE_REGION else f" (that of {region} is not known here)"


@dataclass(slots=True, kw_only=True)
class Draft:
    """Collects problems on the way, so that one run reports all.

    Attributes:
        local_models: Facts of models that the catalog lacks, by the model's short name.
        zone_offerings: Which zone offers which type, where the account said so.
        dependencies_chart: AWS's chart of HyperPod's dependencies, where the file names one.
    """

    config: ServingConfig
    local_models: Mapping[str, ModelFacts]
    zone_offerings: ZoneOfferings | None = None
    dependencies_chart: DependenciesChart | None = None
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def groups(self) -> dict[str, Group]:
        """Instance groups of known types, by name."""
        found = {}
        for index, group in enumerate(self.config.instance_groups):
            types = tuple(INSTANCES[name] for name in group.types if name in INSTANCES)
            if types and len(types) == len(group.types):
                instance = in_common(types)
                if group.threads_per_core == 1:
                    instance = replace(instance, vcpus=instance.vcpus // 2)
                found[group.name] = Group(index=index, config=group, instance=instance, types=types)
        return found

    @property
    def curvine(self) -> CurvineConfig | None:
        """Settings of the pool, or None where L2 is something else."""
        return self.config.cache.l2 if self.config.cache.l2.kind == "curvine" else None

    @property
    def janitor(self) -> JanitorConfig | None:
        """Settings of the janitors, or None where there are none."""
        l2 = self.config.cache.l2
        if not isinstance(l2, CurvineConfig | DirectoryConfig) or not l2.janitor.enabled:
            return None
        return l2.janitor

    @property
    def has_remedies(self) -> bool:
        """True when some advice has to be tried."""
        return any(one.remedies for one in (*self.problems, *self.warnings))

    def image(self, role: str) -> str:
        """Return the image of a role: the configured one, else the catalog's."""
        chosen: str | None = getattr(self.config.images, role)
        if chosen is not None:
            return chosen
        if role == "health_agent":
            return health_agent_image(self.config.region)
        return IMAGES[role].reference

    @property
    def namespaces(self) -> Namespaces:
        """Names that follow from the deployment's."""
        name = self.config.name
        return Namespaces(serving=name, cache=f"{name}-cache", hyperpod="aws-hyperpod")

    @property
    def cache_host_path(self) -> str:
        """Directory on the NVMe of each node that the pool lies in."""
        return f"{self.config.hyperpod.nvme_mount}/kascade/{self.config.name}"

    def runs_on(self, model: ModelConfig, group: Group) -> bool:
        """Say whether a model runs on a group."""
        return model.instance_group in {None, group.config.name}

    def l2_gib(self, group: Group) -> int:
        """Return what one instance of a group gives to L2."""
        if self.config.cache.l2.kind != "managed":
            return group.capacity_gib
        percentage = self.config.hyperpod.tiered_storage_percentage or 0
        return pool.lent_gib(group.instance, percentage)
