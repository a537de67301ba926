"""The instance table: its totals, its limits, and how it hangs together."""

from __future__ import annotations

import pytest

from kascade.catalog.gpus import GPUS
from kascade.catalog.instances import INSTANCES, MAX_PODS_SOURCE, PRICE_DATE, PRICE_SOURCE
from kascade.catalog.offerings import OFFERED_IN

GPU_MEMORY_MIB = {
    "ml.g5.xlarge": 22888,
    "ml.g5.2xlarge": 22888,
    "ml.g5.4xlarge": 22888,
    "ml.g5.8xlarge": 22888,
    "ml.g5.12xlarge": 91552,
    "ml.g5.16xlarge": 22888,
    "ml.g5.24xlarge": 91552,
    "ml.g5.48xlarge": 183104,
    "ml.g6.xlarge": 22888,
    "ml.g6.2xlarge": 22888,
    "ml.g6.4xlarge": 22888,
    "ml.g6.8xlarge": 22888,
    "ml.g6.12xlarge": 91552,
    "ml.g6.16xlarge": 22888,
    "ml.g6.24xlarge": 91552,
    "ml.g6.48xlarge": 183104,
    "ml.gr6.4xlarge": 22888,
    "ml.gr6.8xlarge": 22888,
    "ml.g6e.xlarge": 45776,
    "ml.g6e.2xlarge": 45776,
    "ml.g6e.4xlarge": 45776,
    "ml.g6e.8xlarge": 45776,
    "ml.g6e.12xlarge": 183104,
    "ml.g6e.16xlarge": 45776,
    "ml.g6e.24xlarge": 183104,
    "ml.g6e.48xlarge": 366208,
    "ml.g7.2xlarge": 32768,
    "ml.g7.4xlarge": 32768,
    "ml.g7.8xlarge": 32768,
    "ml.g7.12xlarge": 65536,
    "ml.g7.24xlarge": 131072,
    "ml.g7.48xlarge": 262144,
    "ml.g7e.2xlarge": 98304,
    "ml.g7e.4xlarge": 98304,
    "ml.g7e.8xlarge": 98304,
    "ml.g7e.12xlarge": 196608,
    "ml.g7e.24xlarge": 393216,
    "ml.g7e.48xlarge": 786432,
    "ml.p4d.24xlarge": 327680,
    "ml.p4de.24xlarge": 655360,
    "ml.p5.4xlarge": 81920,
    "ml.p5.48xlarge": 655360,
    "ml.p5e.48xlarge": 1155072,
    "ml.p5en.48xlarge": 1155072,
}


def test_every_type_has_its_gpu_memory() -> None:
    assert {name: t.gpu_memory_mib for name, t in INSTANCES.items()} == GPU_MEMORY_MIB


@pytest.mark.parametrize(
    ("name", "max_pods"),
    [
        ("ml.g6e.xlarge", 14),
        ("ml.g6e.2xlarge", 14),
        ("ml.g6e.4xlarge", 29),
        ("ml.g6e.12xlarge", 29),
        ("ml.g6e.16xlarge", 49),
        ("ml.g6e.48xlarge", 49),
        ("ml.g6.12xlarge", 29),
        ("ml.g5.12xlarge", 49),  # unlike g6 and g6e
        ("ml.g5.16xlarge", 29),  # unlike g6 and g6e
        ("ml.gr6.4xlarge", 29),
        ("ml.g7e.2xlarge", 49),
        ("ml.p4d.24xlarge", 49),
        ("ml.p5.48xlarge", 49),
        ("ml.p5e.48xlarge", 49),
        ("ml.p5.4xlarge", None),
        ("ml.p5en.48xlarge", None),
        ("ml.g7.2xlarge", None),
    ],
)
def test_pod_limits_are_hyperpods_own(name: str, max_pods: int | None) -> None:
    assert INSTANCES[name].max_pods == max_pods


def test_only_undocumented_sizes_lack_a_pod_limit() -> None:
    lacking = {t.ec2_name.split(".")[0] for t in INSTANCES.values() if t.max_pods is None}
    assert lacking == {"g7", "p5", "p5en"}
    assert {t.max_pods for t in INSTANCES.values()} == {14, 29, 49, None}


@pytest.mark.parametrize(
    ("name", "count", "total_gb"),
    [
        ("ml.g6e.4xlarge", 1, 600),
        ("ml.g6e.8xlarge", 2, 900),
        ("ml.g6e.12xlarge", 2, 3800),
        ("ml.g6e.16xlarge", 2, 1900),
        ("ml.g6e.48xlarge", 4, 7600),
        ("ml.g5.8xlarge", 1, 900),
        ("ml.g6.12xlarge", 4, 3760),
        ("ml.g7.2xlarge", None, 440),
        ("ml.g7.48xlarge", None, 7600),
        ("ml.p4d.24xlarge", 8, 8000),
        ("ml.p5.48xlarge", 8, 30400),
    ],
)
def test_nvme(name: str, count: int | None, total_gb: int) -> None:
    instance = INSTANCES[name]
    assert (instance.nvme_count, instance.nvme_gb) == (count, total_gb)
    assert instance.nvme_bytes == total_gb * 10**9


def test_one_row_in_full() -> None:
    instance = INSTANCES["ml.g6e.4xlarge"]
    assert instance.ec2_name == "g6e.4xlarge"
    assert (instance.vcpus, instance.ram_gib, instance.allocatable_ram_mib) == (16, 128, 118312)
    assert (instance.gpu.name, instance.gpus) == ("L40S", 1)
    assert (instance.network_gbps, instance.efa_interfaces) == (20.0, 0)
    assert instance.usd_per_hour == 3.0042


@pytest.mark.parametrize(
    ("name", "efa"),
    [
        ("ml.g6e.4xlarge", 0),
        ("ml.g6e.8xlarge", 1),
        ("ml.g6e.24xlarge", 2),
        ("ml.g7.48xlarge", 2),
        ("ml.p5.48xlarge", 32),
        ("ml.p5en.48xlarge", 16),
    ],
)
def test_efa(name: str, efa: int) -> None:
    assert INSTANCES[name].efa_interfaces == efa


@pytest.mark.parametrize("name", sorted(INSTANCES))
def test_rows_are_plausible(name: str) -> None:
    instance = INSTANCES[name]
    assert instance.name == name
    assert name.startswith("ml.")
    assert GPUS[instance.gpu.name] is instance.gpu
    assert instance.gpus in (1, 2, 4, 8)
    assert 0.75 < instance.allocatable_ram_mib / (instance.ram_gib * 1024) < 1
    assert instance.nvme_count is None or instance.nvme_gb % instance.nvme_count == 0
    assert instance.usd_per_hour is None or 0.5 < instance.usd_per_hour < 100


def test_only_p5e_lacks_a_price() -> None:
    assert [n for n, t in INSTANCES.items() if t.usd_per_hour is None] == ["ml.p5e.48xlarge"]


def test_price_grows_with_the_size_of_a_family() -> None:
    for family in ("g5", "g6", "g7", "g7e"):
        rows = [t for t in INSTANCES.values() if t.ec2_name.startswith(f"{family}.")]
        per_gpus = [(t.gpus, t.usd_per_hour or 0.0) for t in rows]
        assert max(p for g, p in per_gpus if g == 1) < min(p for g, p in per_gpus if g > 1)


def test_gpus() -> None:
    assert set(GPUS) == {
        "L4", "L40S", "A10G", "A100-40", "A100-80", "H100", "H200", "RTX PRO 6000", "RTX PRO 4500",
    }  # fmt: skip
    assert {g.name for g in GPUS.values() if not g.fp8} == {"A10G", "A100-40", "A100-80"}
    assert all(name == gpu.name for name, gpu in GPUS.items())
    assert GPUS["L40S"].memory_mib == 45776
    assert {t.gpu.name for t in INSTANCES.values()} == set(GPUS)


@pytest.mark.parametrize(
    ("name", "tflops"), [("L4", 121.0), ("A100-40", 312.0), ("H100", 989.0), ("H200", 989.0)]
)
def test_gpu_speed_is_dense(name: str, tflops: float) -> None:
    assert GPUS[name].bf16_tflops == tflops


def test_offerings_cover_exactly_the_catalogue() -> None:
    assert set(OFFERED_IN) == set(INSTANCES)
    assert all(list(regions) == sorted(set(regions)) for regions in OFFERED_IN.values())


@pytest.mark.parametrize(
    ("name", "regions"),
    [
        (
            "ml.g6e.4xlarge",
            (
                "ap-northeast-1", "ap-northeast-2", "ap-south-2", "eu-central-1", "eu-north-1",
                "eu-south-2", "us-east-1", "us-east-2", "us-west-2",
            ),
        ),
        ("ml.g7.2xlarge", ("us-east-1", "us-east-2", "us-west-2")),
        ("ml.p5e.48xlarge", ()),
        (
            "ml.p5en.48xlarge",
            (
                "ap-northeast-1", "ap-northeast-2", "ap-south-1", "ap-southeast-3", "eu-north-1",
                "eu-south-2", "us-east-1", "us-east-2", "us-west-1", "us-west-2",
            ),
        ),
    ],
)  # fmt: skip
def test_offerings(name: str, regions: tuple[str, ...]) -> None:
    assert OFFERED_IN[name] == regions


def test_sources_are_dated() -> None:
    assert PRICE_DATE in PRICE_SOURCE
    assert MAX_PODS_SOURCE.startswith("reported")
