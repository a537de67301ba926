"""Values of the plan: a figure with its reason, a price, a place, a size."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number with its unit and the reason it has that value."""

    value: float
    unit: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A price with its unit and where it comes from; None where nobody knows it.

    What adds prices up is unknown as soon as one of them is.
    """

    value: float | None
    unit: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespaces:
    """Kubernetes namespaces of one deployment.

    Attributes:
        serving: Engines and routers.
        cache: Curvine masters, workers, CSI driver (Pod Security level privileged).
        hyperpod: HyperPod's own agents; the service fixes this name.
    """

    serving: str
    cache: str
    hyperpod: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSize:
    """CPU and memory of one container; the memory limit equals the request unless given."""

    cpu_millicores: int
    memory_mib: int
    memory_limit_mib: int | None = None

    @property
    def limit_mib(self) -> int:
        """Memory limit in MiB."""
        return self.memory_mib if self.memory_limit_mib is None else self.memory_limit_mib


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSummary:
    """One line of the tier table: what one tier of one model holds in the whole deployment."""

    model: str
    tier: str
    where: str
    size_bytes: int
    tokens: int
    reason: str
