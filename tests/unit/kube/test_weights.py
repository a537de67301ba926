"""Weights that are mounted instead of downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml

from kascade import plan_file
from kascade.plan import CurvineL2Plan, EnginePlan, ServingPlan
from tests.unit.kube.rendered import Object, container, find, of_kind, pod, render

_CONFIG = Path(__file__).parents[3] / "config"
BUCKET, CLAIM = "qwen3-14b", "llama31-8b"


@cache
def _plan() -> ServingPlan:
    return plan_file(_CONFIG / "weights.yaml")


@cache
def _charts() -> dict[str, list[Object]]:
    return render(_plan())


def _engine(name: str) -> EnginePlan:
    return next(engine for engine in _plan().engines if engine.name == name)


def _pod(name: str) -> Object:
    return pod(find(_charts()[f"engine-{name}"], "Deployment", name))


@pytest.fixture(params=[BUCKET, CLAIM])
def name(request: pytest.FixtureRequest) -> str:
    """Each of the two models."""
    found: str = request.param
    return found


def test_the_id_of_the_model_is_the_path_of_its_weights(name: str) -> None:
    """So that keys, metrics of both programs and the API all say the same name."""
    vllm, engine = container(_pod(name), "vllm"), _engine(name)
    (mount,) = [m for m in vllm["volumeMounts"] if m["name"] == "weights"]
    assert vllm["args"][0] == engine.model == engine.served_name
    assert mount["mountPath"] == f"{vllm['workingDir']}/{engine.model}"
    assert mount["readOnly"] is True


def test_nothing_is_downloaded(name: str) -> None:
    chart, spec = _charts()[f"engine-{name}"], _pod(name)
    env = {entry["name"]: entry.get("value") for entry in container(spec, "vllm")["env"]}
    assert env["HF_HUB_OFFLINE"] == "1"
    assert not {"HF_HOME", "HF_TOKEN"} & env.keys()
    assert [volume for volume in spec["volumes"] if "ephemeral" in volume] == []
    policy = find(chart, "NetworkPolicy", name)["spec"]
    # Closed, and not merely left to the default.
    assert "Egress" in policy["policyTypes"]
    assert "egress" not in policy
    assert not any(word.startswith("--revision") for word in container(spec, "vllm")["args"])


def test_only_vllm_sees_the_weights(name: str) -> None:
    spec = _pod(name)
    seen = {
        item["name"]
        for item in [*spec["initContainers"], *spec["containers"]]
        for mount in item["volumeMounts"]
        if mount["name"] == "weights"
    }
    assert seen == {"vllm"}


def test_a_bucket_is_a_volume_that_nobody_can_write() -> None:
    chart = _charts()[f"engine-{BUCKET}"]
    volumes = [v for v in of_kind(chart, "PersistentVolume") if "mountOptions" in v["spec"]]
    (volume,) = volumes
    spec, meta = volume["spec"], volume["metadata"]
    claim = find(chart, "PersistentVolumeClaim", spec["claimRef"]["name"])
    assert claim["spec"]["volumeName"] == meta["name"]
    assert claim["metadata"]["namespace"] == spec["claimRef"]["namespace"]
    assert spec["accessModes"] == claim["spec"]["accessModes"] == ["ReadOnlyMany"]
    assert spec["storageClassName"] == claim["spec"]["storageClassName"] == ""
    assert spec["mountOptions"] == [
        "read-only",
        "prefix qwen3-14b/40c069824f4251a91eefaf281ebe4c544efd3e18/",
        "region us-west-2",
        "allow-other",
    ]
    csi = spec["csi"]
    assert (csi["driver"], csi["readOnly"]) == ("s3.csi.aws.com", True)
    assert csi["volumeAttributes"]["bucketName"] == "example-models"
    assert csi["volumeAttributes"]["mountpointContainerResourcesLimitsMemory"] == "2048Mi"
    mounted = [v for v in _pod(BUCKET)["volumes"] if v["name"] == "weights"]
    name = claim["metadata"]["name"]
    assert mounted == [
        {"name": "weights", "persistentVolumeClaim": {"claimName": name, "readOnly": True}}
    ]


def test_a_claim_is_only_mounted() -> None:
    chart = _charts()[f"engine-{CLAIM}"]
    assert "models" not in {c["metadata"]["name"] for c in of_kind(chart, "PersistentVolumeClaim")}
    (mount,) = [m for m in container(_pod(CLAIM), "vllm")["volumeMounts"] if m["name"] == "weights"]
    assert mount["subPath"] == "llama31-8b/0e9e39f249a16976918f6564b8830bc894c89659"


def test_a_whole_claim_has_no_folder() -> None:
    engine = _engine(CLAIM)
    assert engine.mounted_weights is not None
    whole = replace(engine, mounted_weights=replace(engine.mounted_weights, folder=None))
    charts = render(replace(_plan(), engines=(_engine(BUCKET), whole)))
    vllm = container(pod(find(charts[f"engine-{CLAIM}"], "Deployment", CLAIM)), "vllm")
    assert [m for m in vllm["volumeMounts"] if "subPath" in m] == []


def _edited(folder: Path, **weights: object) -> ServingPlan:
    config = yaml.safe_load((_CONFIG / "weights.yaml").read_text())
    for model in config["models"]:
        model["weights"].update(
            {key: value for key, value in weights.items() if key in model["weights"]}
        )
    path = folder / "deployment.yaml"
    path.write_text(yaml.safe_dump(config))
    return plan_file(path)


@pytest.mark.parametrize(
    ("change", "model"),
    [
        ({"bucket": "other-models"}, BUCKET),
        ({"prefix": "qwen3-14b/1"}, BUCKET),
        ({"name": "other"}, CLAIM),
        ({"path": "llama31-8b/1"}, CLAIM),
    ],
)
def test_other_weights_have_another_directory(
    change: dict[str, object], model: str, tmp_path: Path
) -> None:
    def directories(plan: ServingPlan) -> Iterator[tuple[str, str]]:
        for engine in plan.engines:
            assert isinstance(engine.lmcache.l2, CurvineL2Plan)
            yield engine.name, engine.lmcache.l2.directory

    before, after = dict(directories(_plan())), dict(directories(_edited(tmp_path, **change)))
    assert {name for name in before if before[name] != after[name]} == {model}


def test_a_claim_without_folder_is_warned_of(tmp_path: Path) -> None:
    plan = _edited(tmp_path, path=None)
    (warning,) = [w for w in plan.warnings if w.path[-1] == "weights"]
    assert "nothing says which weights lie at the root of claim 'models'" in warning.message


def test_the_driver_and_its_mounts_have_room_on_the_nodes() -> None:
    (group,) = _plan().cluster.groups
    assert {"s3-csi-node", f"mountpoint-s3-{BUCKET}"} <= set(group.daemonset_pods)
    assert f"mountpoint-s3-{CLAIM}" not in group.daemonset_pods
    plain = plan_file(_CONFIG / "default.yaml")
    assert not [n for g in plain.cluster.groups for n in g.daemonset_pods if "s3" in n]
