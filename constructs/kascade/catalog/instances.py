"""GPU instance types that HyperPod accepts, one row each.

Everything but the pod limit describes the EC2 type of the same name. Prices are EC2's on-demand
prices: HyperPod bills its own ``ml.`` prices, for which no dated public list is known, so take
these as a lower bound and let a configuration name the real one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kascade.catalog.gpus import (
    A10G,
    A100_40,
    A100_80,
    H100,
    H200,
    L4,
    L40S,
    RTX_PRO_4500,
    RTX_PRO_6000,
    Gpu,
)
from kascade.catalog.offerings import OFFERED_IN
from kascade.units import GB

__all__ = [
    "INSTANCES",
    "MAX_PODS_SOURCE",
    "OFFERED_IN",
    "PRICE_DATE",
    "PRICE_REGION",
    "PRICE_SOURCE",
    "SPEC_SOURCE",
    "InstanceType",
]

SPEC_SOURCE: Final = (
    "karpenter-provider-aws 1d92708, instance-types page; "
    "NVMe counts from tsaol/aws-gpu, Vantage data of 2026-01-21"
)
MAX_PODS_SOURCE: Final = (
    "reported: SageMaker Developer Guide, page sagemaker-hyperpod-eks-prerequisites"
)
PRICE_DATE: Final = "2026-07-20"
PRICE_REGION: Final = "us-east-1"
PRICE_SOURCE: Final = "karpenter-provider-aws 1d92708, price file of 2026-07-20"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One instance type.

    Attributes:
        name: HyperPod's name, such as ``ml.g6e.4xlarge``.
        vcpus: Virtual CPUs.
        ram_gib: Nominal memory.
        gpu: The GPU model.
        gpus: How many of them.
        nvme_count: Local NVMe devices, or None where only their total size is published.
        nvme_gb: All local NVMe together, in decimal gigabytes.
        network_gbps: Baseline network rate, not the burst.
        efa_interfaces: EFA interfaces; 0 where the size has none.
        max_pods: HyperPod's pod limit, far below EC2's because one network interface carries all
            pods, or None where HyperPod publishes none for the size.
        allocatable_ram_mib: Memory left for pods by Karpenter's model of node overhead; HyperPod's
            own reserve comes off as well.
        usd_per_hour: EC2's on-demand price, or None where the price file lacks it.
    """

    name: str
    vcpus: int
    ram_gib: int
    gpu: Gpu
    gpus: int
    nvme_count: int | None
    nvme_gb: int
    network_gbps: float
    efa_interfaces: int
    max_pods: int | None
    allocatable_ram_mib: int
    usd_per_hour: float | None

    @property
    def ec2_name(self) -> str:
        """Name of the EC2 type, without HyperPod's prefix."""
        return self.name.removeprefix("ml.")

    @property
    def nvme_bytes(self) -> int:
        """All local NVMe together."""
        return self.nvme_gb * GB

    @property
    def gpu_memory_mib(self) -> int:
        """Usable memory of all GPUs together."""
        return self.gpus * self.gpu.memory_mib


_Row = tuple[
    str, int, int, int, Gpu, int | None, int, float, int, int | None, int, float | None
]  # fmt: skip

# name, vCPUs, RAM GiB, GPUs, GPU, NVMe devices, NVMe GB in all, network Gbps,
# EFA interfaces, pod limit, allocatable RAM MiB, USD per hour
_ROWS: Final[tuple[_Row, ...]] = (
    ("ml.g5.xlarge", 4, 16, 1, A10G, 1, 250, 2.5, 0, 14, 14162, 1.006),
    ("ml.g5.2xlarge", 8, 32, 1, A10G, 1, 450, 5.0, 0, 14, 29317, 1.212),
    ("ml.g5.4xlarge", 16, 64, 1, A10G, 1, 600, 10.0, 0, 29, 57691, 1.624),
    ("ml.g5.8xlarge", 32, 128, 1, A10G, 1, 900, 25.0, 1, 29, 118312, 2.448),
    ("ml.g5.12xlarge", 48, 192, 4, A10G, 1, 3800, 40.0, 1, 49, 173400, 5.672),
    ("ml.g5.16xlarge", 64, 256, 1, A10G, 1, 1900, 25.0, 1, 29, 239554, 4.096),
    ("ml.g5.24xlarge", 96, 384, 4, A10G, 1, 3800, 50.0, 1, 49, 355262, 8.144),
    ("ml.g5.48xlarge", 192, 768, 8, A10G, 2, 7600, 100.0, 1, 49, 723299, 16.288),
    ("ml.g6.xlarge", 4, 16, 1, L4, 1, 250, 2.5, 0, 14, 14162, 0.8048),
    ("ml.g6.2xlarge", 8, 32, 1, L4, 1, 450, 5.0, 0, 14, 29317, 0.9776),
    ("ml.g6.4xlarge", 16, 64, 1, L4, 1, 600, 10.0, 0, 29, 57691, 1.3232),
    ("ml.g6.8xlarge", 32, 128, 1, L4, 2, 900, 25.0, 1, 29, 118312, 2.0144),
    ("ml.g6.12xlarge", 48, 192, 4, L4, 4, 3760, 40.0, 1, 29, 178933, 4.6016),
    ("ml.g6.16xlarge", 64, 256, 1, L4, 2, 1880, 25.0, 1, 49, 234021, 3.3968),
    ("ml.g6.24xlarge", 96, 384, 4, L4, 4, 3760, 50.0, 1, 49, 355262, 6.6752),
    ("ml.g6.48xlarge", 192, 768, 8, L4, 8, 7520, 100.0, 1, 49, 718987, 13.3504),
    ("ml.gr6.4xlarge", 16, 128, 1, L4, 1, 600, 10.0, 0, 29, 118312, 1.5392),
    ("ml.gr6.8xlarge", 32, 256, 1, L4, 2, 900, 25.0, 1, 29, 239554, 2.4464),
    ("ml.g6e.xlarge", 4, 32, 1, L40S, 1, 250, 2.5, 0, 14, 29317, 1.861),
    ("ml.g6e.2xlarge", 8, 64, 1, L40S, 1, 450, 5.0, 0, 14, 59627, 2.2421),
    ("ml.g6e.4xlarge", 16, 128, 1, L40S, 1, 600, 20.0, 0, 29, 118312, 3.0042),
    ("ml.g6e.8xlarge", 32, 256, 1, L40S, 2, 900, 25.0, 1, 29, 239554, 4.5286),
    ("ml.g6e.12xlarge", 48, 384, 4, L40S, 2, 3800, 100.0, 1, 29, 360157, 10.4926),
    ("ml.g6e.16xlarge", 64, 512, 1, L40S, 2, 1900, 35.0, 1, 49, 476504, 7.5772),
    ("ml.g6e.24xlarge", 96, 768, 4, L40S, 2, 3800, 200.0, 2, 49, 721682, 15.0656),
    ("ml.g6e.48xlarge", 192, 1536, 8, L40S, 4, 7600, 400.0, 4, 49, 1449132, 30.1312),
    ("ml.g7.2xlarge", 8, 32, 1, RTX_PRO_4500, None, 440, 60.0, 0, None, 27161, 2.52),
    ("ml.g7.4xlarge", 16, 64, 1, RTX_PRO_4500, None, 875, 60.0, 0, None, 54699, 3.0421),
    ("ml.g7.8xlarge", 32, 128, 1, RTX_PRO_4500, None, 930, 80.0, 1, None, 113934, 4.0862),
    ("ml.g7.12xlarge", 48, 192, 2, RTX_PRO_4500, None, 1900, 175.0, 1, None, 173169, 7.1283),
    ("ml.g7.24xlarge", 96, 384, 4, RTX_PRO_4500, None, 3800, 350.0, 1, None, 346715, 14.2566),
    ("ml.g7.48xlarge", 192, 768, 8, RTX_PRO_4500, None, 7600, 700.0, 2, None, 718756, 28.5133),
    ("ml.g7e.2xlarge", 8, 64, 1, RTX_PRO_6000, 1, 1900, 50.0, 0, 49, 57471, 3.3631),
    ("ml.g7e.4xlarge", 16, 128, 1, RTX_PRO_6000, 1, 1900, 50.0, 0, 49, 115320, 3.9982),
    ("ml.g7e.8xlarge", 32, 256, 1, RTX_PRO_6000, 1, 1900, 100.0, 1, 49, 236562, 5.2682),
    ("ml.g7e.12xlarge", 48, 512, 2, RTX_PRO_6000, 1, 3800, 400.0, 1, 49, 477659, 8.2861),
    ("ml.g7e.24xlarge", 96, 1024, 4, RTX_PRO_6000, 2, 7600, 800.0, 2, 49, 962625, 16.5722),
    ("ml.g7e.48xlarge", 192, 2048, 8, RTX_PRO_6000, 4, 15200, 1600.0, 4, 49, 1932558, 33.1443),
    ("ml.p4d.24xlarge", 96, 1152, 8, A100_40, 8, 8000, 400.0, 4, 49, 1082712, 21.9576),
    ("ml.p4de.24xlarge", 96, 1152, 8, A100_80, 8, 8000, 400.0, 4, 49, 1082712, 27.4471),
    ("ml.p5.4xlarge", 16, 256, 1, H100, 1, 3800, 100.0, 1, None, 240830, 6.88),
    ("ml.p5.48xlarge", 192, 2048, 8, H100, 8, 30400, 3200.0, 32, 49, 1938410, 55.04),
    ("ml.p5e.48xlarge", 192, 2048, 8, H200, 8, 30400, 3200.0, 32, 49, 1938410, None),
    ("ml.p5en.48xlarge", 192, 2048, 8, H200, 8, 30400, 3200.0, 16, None, 1937332, 63.296),
)

INSTANCES: Final[Mapping[str, InstanceType]] = MappingProxyType(
    {
        name: InstanceType(
            name=name,
            vcpus=vcpus,
            ram_gib=ram_gib,
            gpu=gpu,
            gpus=gpus,
            nvme_count=nvme_count,
            nvme_gb=nvme_gb,
            network_gbps=network_gbps,
            efa_interfaces=efa_interfaces,
            max_pods=max_pods,
            allocatable_ram_mib=allocatable_ram_mib,
            usd_per_hour=usd_per_hour,
        )
        for (
            name,
            vcpus,
            ram_gib,
            gpus,
            gpu,
            nvme_count,
            nvme_gb,
            network_gbps,
            efa_interfaces,
            max_pods,
            allocatable_ram_mib,
            usd_per_hour,
        ) in _ROWS
    }
)
"""Every instance type by HyperPod's name."""
