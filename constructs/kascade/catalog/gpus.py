"""GPUs of the catalogued instance types: usable memory and dense tensor speed.

Memory is what EC2 reports per device, which is less than the number on the box: an L40S sold as
48 GB offers 45776 MiB. Speed is the vendor's bfloat16 tensor figure **without** sparsity; where a
datasheet prints only the sparse figure, half of it stands here. The datasheets were quoted at
second hand; "reported" marks figures on which the quotations disagree or which are derived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU model.

    Attributes:
        name: Short name, the key in ``GPUS``.
        memory_mib: Usable memory of one device.
        memory_gb_per_second: Bandwidth of that memory in 10**9 bytes a second, by the vendor's
            datasheet as reported.
        bf16_tflops: Dense bfloat16 tensor speed in 10**12 operations a second.
        fp8: True when the tensor cores multiply FP8 (Ada, Hopper, Blackwell).
        source: Where the speed comes from.
    """

    name: str
    memory_mib: int
    memory_gb_per_second: float
    bf16_tflops: float
    fp8: bool
    source: str


MEMORY_SOURCE: Final = "karpenter-provider-aws 1d92708, instance-types page"
"""Where every ``memory_mib`` comes from."""

L4: Final = Gpu(
    name="L4",
    memory_mib=22888,
    memory_gb_per_second=300,
    bf16_tflops=121.0,
    fp8=True,
    source="NVIDIA L4 datasheet: 242 with sparsity, halved",
)
L40S: Final = Gpu(
    name="L40S",
    memory_mib=45776,
    memory_gb_per_second=864,
    bf16_tflops=362.0,
    fp8=True,
    source="NVIDIA L40S datasheet: 362.05 dense",
)
A10G: Final = Gpu(
    name="A10G",
    memory_mib=22888,
    memory_gb_per_second=600,
    bf16_tflops=70.0,
    fp8=False,
    source="reported: NVIDIA A10G datasheet, 70 dense; the 125 often quoted is the A10's",
)
A100_40: Final = Gpu(
    name="A100-40",
    memory_mib=40960,
    memory_gb_per_second=1555,
    bf16_tflops=312.0,
    fp8=False,
    source="NVIDIA A100 datasheet: 312 dense",
)
A100_80: Final = Gpu(
    name="A100-80",
    memory_mib=81920,
    memory_gb_per_second=2039,
    bf16_tflops=312.0,
    fp8=False,
    source="NVIDIA A100 datasheet: 312 dense",
)
H100: Final = Gpu(
    name="H100",
    memory_mib=81920,
    memory_gb_per_second=3350,
    bf16_tflops=989.0,
    fp8=True,
    source="NVIDIA H100 SXM datasheet: 1979 with sparsity, halved",
)
H200: Final = Gpu(
    name="H200",
    memory_mib=144384,
    memory_gb_per_second=4800,
    bf16_tflops=989.0,
    fp8=True,
    source="NVIDIA H200 SXM datasheet: 1979 with sparsity, halved",
)
RTX_PRO_6000: Final = Gpu(
    name="RTX PRO 6000",
    memory_mib=98304,
    memory_gb_per_second=1597,
    bf16_tflops=500.0,
    fp8=True,
    source="reported: NVIDIA RTX PRO 6000 Blackwell Server Edition, 1 PFLOPS with sparsity, halved",
)
RTX_PRO_4500: Final = Gpu(
    name="RTX PRO 4500",
    memory_mib=32768,
    memory_gb_per_second=896,
    bf16_tflops=200.0,
    fp8=True,
    source="reported: NVIDIA RTX PRO 4500 Blackwell Server Edition, sparse FP4 rate / 8",
)

GPUS: Final[Mapping[str, Gpu]] = MappingProxyType(
    {
        gpu.name: gpu
        for gpu in (L4, L40S, A10G, A100_40, A100_80, H100, H200, RTX_PRO_6000, RTX_PRO_4500)
    }
)
"""Every GPU by its short name."""
