"""vLLM and its LMCache server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kascade.plan import CurvineL2Plan, EnginePlan, ServingPlan
from tests.unit.kube.rendered import (
    Object,
    container,
    everything,
    find,
    flags,
    matches,
    of_kind,
    parsed,
    pod,
    pod_labels,
)

Render = Callable[[ServingPlan], dict[str, list[Object]]]


@pytest.fixture
def chart(default_charts: dict[str, list[Object]], engine: EnginePlan) -> list[Object]:
    return default_charts[f"engine-{engine.name}"]


@pytest.fixture
def spec(chart: list[Object], engine: EnginePlan) -> Object:
    return pod(find(chart, "Deployment", engine.name))


@pytest.fixture
def vllm(spec: Object) -> Object:
    return container(spec, "vllm")


@pytest.fixture
def lmcache(spec: Object) -> Object:
    return container(spec, "lmcache")


def test_guards_then_server_then_engine(spec: Object) -> None:
    assert [(item["name"], item.get("restartPolicy")) for item in spec["initContainers"]] == [
        ("check-gpu", None),
        ("check-cache-gpu", None),
        ("check-cache-mount", None),
        ("lmcache", "Always"),
    ]
    assert [item["name"] for item in spec["containers"]] == ["vllm"]
    assert "startupProbe" in spec["initContainers"][-1]


def test_gpus_are_requested_by_vllm_and_what_looks_for_them_before(
    engine: EnginePlan, spec: Object
) -> None:
    """The kubelet hands an init container's devices on; a sidecar's would be claimed beside."""
    for item in [*spec["initContainers"], *spec["containers"]]:
        asks = item["name"] in ("vllm", "check-gpu")
        for kind in ("requests", "limits"):
            gpus = item["resources"][kind].get("nvidia.com/gpu")
            assert gpus == (engine.gpus if asks else None)
        sees_all = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in item.get("env", [])
        assert sees_all is (item["name"] in ("lmcache", "check-cache-gpu"))


def test_memory_is_the_plans_and_request_equals_limit(
    plan: ServingPlan, charts: dict[str, list[Object]]
) -> None:
    for engine in plan.engines:
        deployment = pod(find(charts[f"engine-{engine.name}"], "Deployment", engine.name))
        memory = {
            name: container(deployment, name)["resources"]["limits"]["memory"]
            for name in ("vllm", "lmcache")
        }
        assert memory == {
            "vllm": f"{engine.size.limit_mib}Mi",
            "lmcache": f"{engine.lmcache.size.limit_mib}Mi",
        }
        for name, limit in memory.items():
            resources = container(deployment, name)["resources"]
            assert resources["requests"]["memory"] == limit
            assert "cpu" not in resources["limits"]


def test_shared_memory_and_weights(engine: EnginePlan, spec: Object) -> None:
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": f"{engine.shm_mib}Mi"}
    claim = volumes["weights"]["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert claim["storageClassName"] == "kascade-weights"
    assert claim["resources"]["requests"] == {"storage": f"{engine.weights_volume_gib}Gi"}
    for name in ("vllm", "lmcache"):
        paths = {mount["mountPath"] for mount in container(spec, name)["volumeMounts"]}
        assert "/dev/shm" in paths  # noqa: S108 - shared memory


def test_only_guard_and_server_see_the_cache(l2: CurvineL2Plan, spec: Object) -> None:
    seen = {
        item["name"]
        for item in [*spec["initContainers"], *spec["containers"]]
        for mount in item["volumeMounts"]
        if mount["mountPath"] == l2.mount_path
    }
    assert seen == {"check-cache-mount", "lmcache"}


def test_both_sides_agree(engine: EnginePlan, vllm: Object, lmcache: Object) -> None:
    server = flags(lmcache["args"])
    transfer = parsed(vllm["args"], "--kv-transfer-config")
    assert transfer["kv_connector"] == "LMCacheMPConnector"
    assert transfer["kv_load_failure_policy"] == "recompute"
    extra = transfer["kv_connector_extra_config"]
    assert extra["lmcache.mp.port"] == int(server["--port"])
    assert extra["lmcache.mp.hash_algorithm"] == server["--hash-algorithm"]
    assert extra["lmcache.mp.isolated_ipc"] is ("--isolated-ipc" in server)
    assert extra["lmcache.mp.mq_timeout"] == engine.lmcache.mq_timeout_seconds
    # The server forgets a worker that was silent for 120 s, its default, or three heartbeats.
    assert 3 * extra["lmcache.mp.heartbeat_interval"] <= 120
    assert int(server["--chunk-size"]) % int(flags(vllm["args"])["--block-size"]) == 0
    assert vllm["image"] == lmcache["image"]


def test_environment_of_both_is_equal_where_it_must_be(vllm: Object, lmcache: Object) -> None:
    def env(item: Object) -> dict[str, str | None]:
        return {entry["name"]: entry.get("value") for entry in item["env"]}

    for name in ("PYTHONHASHSEED", "DO_NOT_TRACK", "VLLM_NO_USAGE_STATS", "LMCACHE_TRACK_USAGE"):
        assert env(vllm)[name] == env(lmcache)[name]
    assert env(vllm)["PYTHONHASHSEED"] == "0"
    assert env(lmcache)["NVIDIA_VISIBLE_DEVICES"] == "all"


def test_model_is_one_text_everywhere(plan: ServingPlan, charts: dict[str, list[Object]]) -> None:
    for engine in plan.engines:
        deployment = find(charts[f"engine-{engine.name}"], "Deployment", engine.name)
        args = container(pod(deployment), "vllm")["args"]
        assert args[0] == engine.model
        assert flags(args)["--served-model-name"] == engine.model


def test_sizes_come_from_the_plan(engine: EnginePlan, vllm: Object, lmcache: Object) -> None:
    given = flags(vllm["args"])
    assert given["--tensor-parallel-size"] == str(engine.gpus)
    assert given["--max-model-len"] == str(engine.max_model_len)
    assert given["--gpu-memory-utilization"] == str(engine.gpu_memory_utilization)
    assert flags(lmcache["args"])["--l1-size-gb"] == str(engine.lmcache.l1_gib)
    # Flags that vLLM 0.32 rejects.
    assert not {"--swap-space", "--disable-log-requests", "--device"} & given.keys()


def test_quantization_is_said_only_where_there_is_one(
    plan: ServingPlan, charts: dict[str, list[Object]]
) -> None:
    for engine in plan.engines:
        deployment = find(charts[f"engine-{engine.name}"], "Deployment", engine.name)
        given = flags(container(pod(deployment), "vllm")["args"])
        assert given.get("--quantization") == engine.quantization


def test_l2_adapter(l2: CurvineL2Plan, lmcache: Object) -> None:
    adapter = parsed(lmcache["args"], "--l2-adapter")
    assert adapter["type"] == "fs_native"
    assert adapter["base_path"] == l2.base_path
    assert adapter["relative_tmp_dir"] == ".tmp-$(POD_NAME)"
    assert adapter["shared"] is True
    # The capacity bounds nothing without the eviction block.
    assert adapter["max_capacity_gb"] == l2.capacity_gib
    assert adapter["eviction"]["trigger_watermark"] == l2.evict_at
    mounted = {mount["name"]: mount["mountPath"] for mount in lmcache["volumeMounts"]}["cache-key"]
    assert adapter["serde"] == {
        "type": "aesgcm",
        "master_key_path": f"{mounted}/key",
        "aes_bits": 256,
        "max_workers": l2.serde_workers,
    }
    assert any(entry["name"] == "POD_NAME" for entry in lmcache["env"])


def test_no_two_engines_share_a_directory(
    plan: ServingPlan, charts: dict[str, list[Object]]
) -> None:
    volumes = {
        item["metadata"]["name"]: item["spec"]["volumeName"]
        for item in of_kind(everything(charts), "PersistentVolumeClaim")
    }
    paths = {
        item["metadata"]["name"]: item["spec"]["csi"]["volumeAttributes"]["curvine-path"]
        for item in of_kind(everything(charts), "PersistentVolume")
    }
    places = []
    for engine in plan.engines:
        deployment = pod(find(charts[f"engine-{engine.name}"], "Deployment", engine.name))
        (claim,) = [
            volume["persistentVolumeClaim"]["claimName"]
            for volume in deployment["volumes"]
            if "persistentVolumeClaim" in volume
        ]
        server = container(deployment, "lmcache")
        adapter = parsed(server["args"], "--l2-adapter")
        places.append((paths[volumes[claim]], adapter["base_path"]))
        # One pool of memory has one block geometry, and both stand in the path.
        assert flags(server["args"])["--chunk-size"] in paths[volumes[claim]]
    assert len(set(places)) == len(plan.engines)


@pytest.mark.parametrize(
    ("kind", "marked", "said"),
    [
        ("fuse", True, "has its marker"),
        ("fuse.curvine", True, "has its marker"),
        ("fuse", False, "has no .kascade-volume"),
        ("ext4", True, "not FUSE"),
        (None, True, "is nothing"),
    ],
)
def test_guard(kind: str | None, marked: bool, said: str, spec: Object, tmp_path: Path) -> None:
    guard = container(spec, "check-cache-mount")
    mount = tmp_path / "kv"
    mount.mkdir()
    if marked:
        (mount / guard["args"][1]).touch()
    table = tmp_path / "mounts"
    table.write_text("overlay / overlay rw 0 0\n")
    if kind is not None:
        table.write_text(f"overlay / overlay rw 0 0\ncurvine {mount} {kind} rw 0 0\n")
    _, flag, script = guard["command"]
    script = script.replace("/proc/self/mounts", str(table))
    answer = subprocess.run(
        [sys.executable, flag, script, str(mount), guard["args"][1], "0"],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert answer.returncode == (0 if said == "has its marker" else 1)
    assert said in answer.stdout + answer.stderr


def test_probes_never_touch_the_cache(vllm: Object, lmcache: Object) -> None:
    for item, path in ((vllm, "/health"), (lmcache, "/healthcheck")):
        probes = [item[kind] for kind in item if kind.endswith("Probe")]
        assert {probe["httpGet"]["path"] for probe in probes} == {path}
    # A lost server makes the engine recompute, not disappear.
    assert "readinessProbe" not in lmcache


@pytest.mark.parametrize("seconds", [600, 601, 609, 610])
def test_startup_waits_for_the_weights(
    seconds: int, default_plan: ServingPlan, engine: EnginePlan, rendered: Render
) -> None:
    slow = replace(engine, load_timeout_seconds=seconds)
    chart = rendered(replace(default_plan, engines=(slow,)))[f"engine-{engine.name}"]
    deployment = find(chart, "Deployment", engine.name)
    probe = container(pod(deployment), "vllm")["startupProbe"]
    budget = probe["periodSeconds"] * probe["failureThreshold"]
    assert seconds <= budget < seconds + 10
    assert deployment["spec"]["progressDeadlineSeconds"] > budget


def test_requests_in_flight_may_end(
    default_plan: ServingPlan, chart: list[Object], spec: Object, vllm: Object
) -> None:
    _, _, _, url, notice, longest = vllm["lifecycle"]["preStop"]["exec"]["command"]
    (router,) = default_plan.routers
    assert int(longest) == int(notice) + router.request_timeout_seconds
    grace = spec["terminationGracePeriodSeconds"]
    assert grace > int(longest) + int(flags(vllm["args"])["--shutdown-timeout"])
    assert url.endswith(f":{flags(vllm['args'])['--port']}")
    # With no GPU to spare a new pod waits for the whole end of an old one.
    deployment = find(chart, "Deployment", router.engine)
    startup = vllm["startupProbe"]
    budget = startup["periodSeconds"] * startup["failureThreshold"]
    assert deployment["spec"]["progressDeadlineSeconds"] >= grace + budget


def test_rollout_is_the_plans(engine: EnginePlan, chart: list[Object]) -> None:
    deployment = find(chart, "Deployment", engine.name)["spec"]
    assert deployment["replicas"] == engine.replicas
    assert deployment["strategy"]["rollingUpdate"] == {
        "maxSurge": engine.max_surge,
        "maxUnavailable": engine.max_unavailable,
    }


def test_pod_goes_where_its_group_is(plan: ServingPlan, charts: dict[str, list[Object]]) -> None:
    for engine in plan.engines:
        deployment = find(charts[f"engine-{engine.name}"], "Deployment", engine.name)
        affinity = pod(deployment)["affinity"]["nodeAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        wanted = {entry["key"]: entry["values"] for entry in term["matchExpressions"]}
        assert wanted["sagemaker.amazonaws.com/instance-group-name"] == [engine.group]
        assert wanted["node.kubernetes.io/instance-type"] == [engine.instance_type]
        keys = {entry["key"] for entry in pod(deployment)["tolerations"]}
        assert keys == {"nvidia.com/gpu", *engine.taint_keys}


def test_token_only_where_the_plan_names_a_secret(
    default_plan: ServingPlan, engine: EnginePlan, rendered: Render
) -> None:
    def token(plan: EnginePlan) -> list[Object]:
        chart = rendered(replace(default_plan, engines=(plan,)))[f"engine-{plan.name}"]
        env = container(pod(find(chart, "Deployment", plan.name)), "vllm")["env"]
        return [entry for entry in env if entry["name"] == "HF_TOKEN"]

    assert token(replace(engine, huggingface_secret=None)) == []
    (entry,) = token(replace(engine, huggingface_secret="hf"))  # noqa: S106 - a name
    assert entry["valueFrom"] == {"secretKeyRef": {"name": "hf", "key": "token"}}


def test_only_its_own_router_and_the_collector_get_in(
    default_plan: ServingPlan,
    engine: EnginePlan,
    chart: list[Object],
    default_charts: dict[str, list[Object]],
) -> None:
    policy = find(chart, "NetworkPolicy", engine.name)["spec"]
    own, collector = policy["ingress"]
    (peer,) = own["from"]
    router = find(default_charts["router"], "Deployment", default_plan.routers[0].name)
    assert matches(peer["podSelector"], pod_labels(router))
    assert [entry["port"] for entry in own["ports"]] == [engine.port]
    assert collector["from"] == [
        {"ipBlock": {"cidr": cidr}} for cidr in default_plan.network.collector_cidrs
    ]
    (weights,) = policy["egress"]
    (block,) = weights["to"]
    assert "10.0.0.0/8" in block["ipBlock"]["except"]
    assert [entry["port"] for entry in weights["ports"]] == [443]


def test_engine_without_l2(default_plan: ServingPlan, engine: EnginePlan, rendered: Render) -> None:
    bare = replace(engine, lmcache=replace(engine.lmcache, l2=None))
    chart = rendered(replace(default_plan, engines=(bare,)))[f"engine-{engine.name}"]
    spec = pod(find(chart, "Deployment", engine.name))
    names = [item["name"] for item in spec["initContainers"]]
    assert names == ["check-gpu", "check-cache-gpu", "lmcache"]
    volumes = {volume["name"] for volume in spec["volumes"]}
    assert volumes == {"shm", "weights", "programs", "cache-module"}
    assert "--l2-adapter" not in flags(container(spec, "lmcache")["args"])


def test_budget_lets_one_pod_go(chart: list[Object]) -> None:
    (budget,) = of_kind(chart, "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
