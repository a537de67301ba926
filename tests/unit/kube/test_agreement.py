"""What is rendered must not contradict itself: each agreement is broken once, on purpose."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kascade import KascadeError, ServingPlan, plan_file
from kascade.kube.agreement import check_agreement, disagreements
from kascade.kube.engine_program import HEALTH_ARG
from kascade.plan import CurvineL2Plan
from tests.checkout import CONFIGS
from tests.unit.kube.rendered import (
    Object,
    container,
    containers,
    everything,
    find,
    flags,
    of_kind,
    pod,
    render,
)

_CONFIG = Path(__file__).parents[3] / "config"
ENGINE, ROUTER, VERIFY = "qwen2-7b", "qwen2-7b-router", "qwen2-7b-verify"

Change = Callable[[list[Object]], object]


@cache
def _rendered(name: str) -> tuple[ServingPlan, list[Object]]:
    plan = plan_file(_CONFIG / f"{name}.yaml")
    return plan, everything(render(plan))


@pytest.mark.parametrize("name", CONFIGS)
def test_every_configuration_agrees_with_itself(name: str) -> None:
    assert disagreements(_rendered(name)[1]) == []


# --- errors of the rendering ----------------------------------------------------------------


def _program(objects: list[Object], owner: str, name: str) -> Object:
    kind = "CronJob" if owner == VERIFY else "Deployment"
    return container(pod(find(objects, kind, owner)), name)


def flag(owner: str, name: str, what: str, value: str | None) -> Change:
    """Give an argument another value, or none at all."""

    def change(objects: list[Object]) -> None:
        args = _program(objects, owner, name)["args"]
        places = [i for i, word in enumerate(args) if word == what or word.startswith(f"{what}=")]
        assert places, what
        args[places[0] : places[0] + 1] = [] if value is None else [f"{what}={value}"]

    return change


def within(name: str, what: str, edit: Callable[[Any], object]) -> Change:
    """Change an argument that is JSON."""

    def change(objects: list[Object]) -> None:
        args = _program(objects, ENGINE, name)["args"]
        (place,) = [i for i, word in enumerate(args) if word.startswith(f"{what}=")]
        value = json.loads(args[place].partition("=")[2])
        edit(value)
        args[place] = f"{what}={json.dumps(value)}"

    return change


def connector(key: str, value: object) -> Change:
    def edit(config: Any) -> None:
        assert f"lmcache.mp.{key}" in config["kv_connector_extra_config"]
        config["kv_connector_extra_config"][f"lmcache.mp.{key}"] = value

    return within("vllm", "--kv-transfer-config", edit)


def adapter(**changes: object) -> Change:
    return within("lmcache", "--l2-adapter", lambda value: value.update(changes))


def unencrypted() -> Change:
    return within("lmcache", "--l2-adapter", lambda value: value.pop("serde"))


def field(owner: str, name: str, edit: Callable[[Object], object]) -> Change:
    return lambda objects: edit(_program(objects, owner, name))


def env(owner: str, name: str, variable: str, entry: Object | None) -> Change:
    def edit(program: Object) -> None:
        kept = [item for item in program["env"] if item["name"] != variable]
        assert len(kept) < len(program["env"])
        program["env"] = kept if entry is None else [*kept, {"name": variable, **entry}]

    return field(owner, name, edit)


def moved_volume(program: Object) -> None:
    (mount,) = [m for m in program["volumeMounts"] if m["name"] == "cache"]
    mount["mountPath"] = "/mnt/other"


def model_argument(program: Object) -> None:
    program["args"][0] = "/weights/model"


def directory(old: str, new: str) -> Change:
    """Name the directory of the pool otherwise."""

    def change(objects: list[Object]) -> None:
        for item in of_kind(objects, "PersistentVolume"):
            attributes = item["spec"]["csi"]["volumeAttributes"]
            assert re.search(old, attributes["curvine-path"])
            attributes["curvine-path"] = re.sub(old, new, attributes["curvine-path"])

    return change


def all_of(*changes: Change) -> Change:
    def change(objects: list[Object]) -> None:
        for one in changes:
            one(objects)

    return change


BROKEN: dict[str, tuple[Change, str]] = {
    "model path": (field(ENGINE, "vllm", model_argument), r"the model is /weights/model by vLLM"),
    "served name": (
        flag(ENGINE, "vllm", "--served-model-name", "qwen"),
        r"the model is .* by vLLM and qwen by vLLM's --served-model-name",
    ),
    "model of the verification": (
        flag(VERIFY, "verify", "--model", "x"),
        r"the model .* x by verify",
    ),
    "engine image": (
        field(ENGINE, "vllm", lambda program: program.update(image="other:1")),
        r"the image is other:1 by vLLM and .* by the LMCache server",
    ),
    "server image": (
        field(ENGINE, "lmcache", lambda program: program.update(image="other:1")),
        r"the image is .* by vLLM and other:1 by the LMCache server",
    ),
    "guard's image": (
        field(ENGINE, "check-cache-mount", lambda program: program.update(image="other:1")),
        r"other:1 by the guard",
    ),
    "both images": (
        all_of(
            *(
                field(ENGINE, name, lambda program: program.update(image="other:1"))
                for name in ("vllm", "lmcache", "check-cache-mount")
            )
        ),
        r"the hash of the image is .* by LMCache's image and .* by the directory",
    ),
    "dtype": (flag(ENGINE, "vllm", "--dtype", "float16"), r"the KV dtype is float16 by vLLM"),
    "KV dtype": (flag(ENGINE, "vllm", "--kv-cache-dtype", "fp8"), r"the KV dtype is fp8 by vLLM"),
    "quantization": (
        lambda objects: _program(objects, ENGINE, "vllm")["args"].append("--quantization=fp8"),
        r"the quantization is fp8 by vLLM and not said by the directory",
    ),
    "revision": (
        flag(ENGINE, "vllm", "--revision", "0" * 40),
        r"the revision is 0000000 by vLLM and f2826a0 by the directory",
    ),
    "revision not said": (
        flag(ENGINE, "vllm", "--revision", None),
        r"the revision is main by vLLM and f2826a0",
    ),
    "tensor parallel size": (
        flag(ENGINE, "vllm", "--tensor-parallel-size", "2"),
        r"the number of GPUs is 2 by vLLM and 1 by its resource limit",
    ),
    "workers of the server": (
        flag(ENGINE, "lmcache", "--max-workers", "4"),
        r"the number of GPUs .* 4 by LMCache's --max-workers",
    ),
    "chunk size of the server": (
        flag(ENGINE, "lmcache", "--chunk-size", "512"),
        r"the chunk size is 512 by LMCache and 256 by the directory",
    ),
    "chunk size of the verification": (
        flag(VERIFY, "verify", "--chunk-size", "512"),
        r"the chunk size is 256 by LMCache and 512 by verify",
    ),
    "block size": (
        flag(ENGINE, "vllm", "--block-size", "96"),
        r"chunk of 256 tokens is no multiple of vLLM's block of 96",
    ),
    "no block size": (flag(ENGINE, "vllm", "--block-size", None), r"no multiple of vLLM's block"),
    "hash algorithm of the connector": (
        connector("hash_algorithm", "sha256_cbor"),
        r"the hash algorithm is sha256_cbor by vLLM's .* and blake3 by LMCache",
    ),
    "hash algorithm of the server": (
        flag(ENGINE, "lmcache", "--hash-algorithm", "sha256_cbor"),
        r"the hash algorithm is blake3 by vLLM's .* and sha256_cbor by LMCache",
    ),
    "hash seed of the engine": (
        env(ENGINE, "vllm", "PYTHONHASHSEED", {"value": "1"}),
        r"the hash seed is 1 by vLLM's PYTHONHASHSEED and 0 by the LMCache server's",
    ),
    "hash seed of the server": (
        env(ENGINE, "lmcache", "PYTHONHASHSEED", None),
        r"the hash seed is 0 by vLLM's PYTHONHASHSEED and not said by the LMCache server's",
    ),
    "hash seed of the router": (
        env(ROUTER, "router", "PYTHONHASHSEED", {"value": "1"}),
        r"the hash seed .* 1 by the router's",
    ),
    "random block hashes": (
        all_of(
            flag(ENGINE, "vllm", "--prefix-caching-hash-algo", "xxhash"),
            env(ENGINE, "vllm", "PYTHONHASHSEED", None),
        ),
        r"xxhash differs in every process without a seed",
    ),
    "isolated IPC of the connector": (
        connector("isolated_ipc", value=False),
        r"isolated IPC is False by vLLM's .* and True by LMCache",
    ),
    "isolated IPC of the server": (
        flag(ENGINE, "lmcache", "--isolated-ipc", None),
        r"isolated IPC is True by vLLM's .* and False by LMCache",
    ),
    "port of the connector": (connector("port", 5556), r"the port of the cache is 5556 by vLLM's"),
    "port of the server": (
        flag(ENGINE, "lmcache", "--port", "5556"),
        r"the port of the cache is 5555 by vLLM's .* and 5556 by LMCache's --port",
    ),
    "host of the connector": (
        connector("host", "tcp://cache"),
        r"the address of the cache is cache by vLLM's .* and 127\.0\.0\.1 by LMCache's",
    ),
    "HTTP port": (
        flag(ENGINE, "lmcache", "--http-port", "8081"),
        r"LMCache's HTTP port is 8081 by --http-port and 8080 by its container port",
    ),
    "HTTP port of the verification": (
        flag(VERIFY, "verify", "--lmcache-port", "8081"),
        r"LMCache's HTTP port .* 8081 by verify",
    ),
    "engine's port": (
        flag(ENGINE, "vllm", "--port", "8001"),
        r"vLLM's port is 8001 by --port and 8000 by its container port",
    ),
    "engine's port for the router": (
        flag(ROUTER, "router", "--service-discovery-port", "8001"),
        r"vLLM's port .* 8001 by the router's",
    ),
    "engine's port for the verification": (
        flag(VERIFY, "verify", "--engine-port", "8001"),
        r"vLLM's port .* 8001 by verify",
    ),
    "namespace of the router": (
        flag(ROUTER, "router", "--service-discovery-namespace", "other"),
        r"the namespace is kascade by the engine and other by the router",
    ),
    "pods of the router": (
        lambda objects: find(objects, "Deployment", ENGINE)["spec"]["template"]["metadata"][
            "labels"
        ].update({"app.kubernetes.io/instance": "other"}),
        r"looks for pods with app\.kubernetes\.io/instance=qwen2-7b, but .*instance=other",
    ),
    "router's port": (
        flag(ROUTER, "router", "--port", "8001"),
        r"the router's port is 8001 by --port and 8000",
    ),
    "router's metrics port": (
        flag(ROUTER, "router", "--prometheus-port", "29001"),
        r"metrics port is 29001 by --prometheus-port",
    ),
    "router of the verification": (
        flag(VERIFY, "verify", "--router-url", "http://other:8000"),
        r"the router's name is qwen2-7b-router by its Deployment and other by verify",
    ),
    "policy of the verification": (
        flag(VERIFY, "verify", "--router-policy", "round_robin"),
        r"the router's policy is cache_aware by the router and round_robin by verify",
    ),
    "an engine that does not render": (
        flag(ENGINE, "vllm", "--enable-scale-out", None),
        r"policy cache_aware asks its engines to render .* without --enable-scale-out answers 403",
    ),
    "an engine that renders for nobody": (
        all_of(
            flag(ROUTER, "router", "--policy", "round_robin"),
            flag(VERIFY, "verify", "--router-policy", "round_robin"),
        ),
        r"has --enable-scale-out, which opens paths, and .* policy round_robin renders nothing",
    ),
    "paths left open": (
        flag(ENGINE, "vllm", "--middleware", None),
        r"no --middleware of kascade_engine\.Limits or kascade_tenancy\.TenantSalt",
    ),
    "a breaker that opens too late": (
        flag(ROUTER, "router", "--cb-failure-threshold", "5"),
        r"tries a request 5 times and stops asking an engine after 5 failures",
    ),
    "the router's own breaker": (
        flag(ROUTER, "router", "--cb-failure-threshold", None),
        r"after 10 failures, so all attempts may go to one that has died; lower .* below 5",
    ),
    "too few attempts": (
        flag(ROUTER, "router", "--retry-max-retries", "2"),
        r"tries a request 2 times and stops asking an engine after 2 failures",
    ),
    "shared memory": (
        field(
            ENGINE,
            "lmcache",
            lambda program: program["volumeMounts"][0].update(mountPath="/dev/other"),
        ),
        r"the place of shared memory is /dev/shm by vLLM and /dev/other by LMCache",
    ),
    "heartbeat": (
        connector("heartbeat_interval", 60),
        r"forgets an engine after 120 s, less than 3 of vLLM's heartbeats of 60 s",
    ),
    "an idle engine that is forgotten": (
        flag(ENGINE, "lmcache", "--worker-registration-grace-seconds", "86400"),
        r"nothing for 86400 s and never takes it back; give .*-grace-seconds at least 31536000",
    ),
    "LMCache's own grace": (
        flag(ENGINE, "lmcache", "--worker-registration-grace-seconds", None),
        r"forgets an engine that has stored nothing for 3600 s and never takes it back",
    ),
    "a server without our module": (
        within("lmcache", "--server-module", lambda value: value.update(module_path="other")),
        r"is not given the module kascade_cache by --server-module, so a block that cannot be",
    ),
    "files that are renewed elsewhere": (
        within(
            "lmcache", "--server-module", lambda value: value["config"].update(directory="/other")
        ),
        r"the folder of blocks is /mnt/kv by LMCache's base_path and /other by the module",
    ),
    "one temporary directory": (
        adapter(relative_tmp_dir=".tmp"),
        r"relative_tmp_dir is '\.tmp', the same in every pod",
    ),
    "temporary directory elsewhere": (
        adapter(relative_tmp_dir="../$(POD_NAME)"),
        r"must be one level below base_path",
    ),
    "name of the pod": (
        env(ENGINE, "lmcache", "POD_NAME", {"value": "pod"}),
        r"must hold \$\(POD_NAME\), taken from metadata\.name",
    ),
    "base path": (adapter(base_path="/var/kv"), r"base_path '/var/kv' is not on the cache's mount"),
    "base path beside the mount": (
        adapter(base_path="/mnt/kv-other"),
        r"base_path '/mnt/kv-other' is not on the cache's mount '/mnt/kv'",
    ),
    "guard's mount": (
        field(ENGINE, "lmcache", moved_volume),
        r"the cache's mount is /mnt/kv by the guard and /mnt/other by LMCache's volume",
    ),
    "capacity without eviction": (adapter(eviction=None), r"max_capacity_gb bounds nothing"),
    "seal": (unencrypted(), r"the seal of blocks is none by LMCache and aesgcm by the directory"),
    "directory of another chunk": (
        directory("-c256-", "-c128-"),
        r"the chunk size is 256 by LMCache and 128 by the directory",
    ),
    "directory of another model": (
        directory("Qwen--Qwen2-7B-Instruct", "Qwen--Qwen2"),
        r"the model is Qwen/Qwen2-7B-Instruct .* Qwen/Qwen2 by the directory",
    ),
    "drain shorter than an answer": (
        flag(ROUTER, "router", "--request-timeout-secs", "9000"),
        r"its drain ends after 3955 s, but 5 s pass .* and a request may take 9000 s",
    ),
    "no drain": (
        field(ENGINE, "vllm", lambda program: program.pop("lifecycle")),
        r"its drain ends after 0 s",
    ),
    "grace shorter than the drain": (
        lambda objects: pod(find(objects, "Deployment", ENGINE)).update(
            terminationGracePeriodSeconds=600
        ),
        r"its pod has 600 s to end, less than the 3955 s of its drain and the 15 s of vLLM's",
    ),
    "a shutdown longer than the grace": (
        flag(ENGINE, "vllm", "--shutdown-timeout", "31"),
        r"its pod has 3985 s to end, less than the 3955 s of its drain and the 31 s",
    ),
    "a health check that no hung core fails": (
        field(ENGINE, "vllm", lambda program: program["args"].remove(HEALTH_ARG)),
        r"vLLM answers /health although its core hangs",
    ),
    "a health check that is not there": (
        env(ENGINE, "vllm", "PYTHONPATH", {"value": "/opt/other"}),
        r"is not where vLLM's PYTHONPATH leads",
    ),
    "a proof of other GPUs": (
        field(ENGINE, "check-gpu", lambda program: program["args"].__setitem__(1, "2")),
        r"have to write the 1 GPUs of the engine",
    ),
    "a server without a limit": (
        field(ENGINE, "lmcache", lambda program: program.update(command=["lmcache", "server"])),
        r"LMCache server is not limited to the GPUs in",
    ),
    "directory that says nothing": (directory("/kv/.*", "/kv"), r"does not say model, weights"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_agreement_is_named(case: str) -> None:
    change, words = BROKEN[case]
    objects = copy.deepcopy(_rendered("default")[1])
    change(objects)
    with pytest.raises(KascadeError, match="contradicts itself") as caught:
        check_agreement(objects)
    sentences = str(caught.value).splitlines()[1:]
    assert any(re.search(words, sentence) for sentence in sentences), sentences
    assert all(f"{ENGINE}: " in sentence for sentence in sentences)


def test_two_models_never_share_a_directory() -> None:
    objects = copy.deepcopy(_rendered("fleet")[1])
    first, second, *_ = (
        item["spec"]["csi"]["volumeAttributes"] for item in of_kind(objects, "PersistentVolume")
    )
    second["curvine-path"] = first["curvine-path"]
    assert any("keep their blocks in one directory" in found for found in disagreements(objects))


def test_mounted_weights_lie_where_the_model_is_looked_for() -> None:
    plan, rendered = _rendered("weights")
    objects = copy.deepcopy(rendered)
    engine = plan.engines[0]
    vllm = container(pod(find(objects, "Deployment", engine.name)), "vllm")
    (mount,) = [m for m in vllm["volumeMounts"] if m["name"] == "weights"]
    mount["mountPath"] = "/weights/model"
    (found,) = disagreements(objects)
    assert f"the model is {engine.model} by vLLM and model by the mount of its weights" in found


# --- errors of the plan ---------------------------------------------------------------------


def test_slices_of_a_plan_that_disagree_are_not_rendered() -> None:
    """The check stands in the straight line: `build_charts` itself rejects."""
    plan, _ = _rendered("default")
    (engine,), (router,), (verification,) = plan.engines, plan.routers, plan.verifications
    server = engine.lmcache
    assert isinstance(server.l2, CurvineL2Plan)
    assert plan.curvine is not None
    (volume,) = plan.curvine.volumes
    other_volume = replace(volume, curvine_path=volume.curvine_path.replace("tp1", "tp2"))

    def with_engine(**changes: Any) -> ServingPlan:
        return replace(plan, engines=(replace(engine, **changes),))

    def with_server(**changes: Any) -> ServingPlan:
        return with_engine(lmcache=replace(server, **changes))

    def with_verification(**changes: Any) -> ServingPlan:
        return replace(plan, verifications=(replace(verification, **changes),))

    def with_router(**changes: Any) -> ServingPlan:
        return replace(plan, routers=(replace(router, **changes),))

    broken = {
        "the model": with_engine(model="Qwen/Qwen2"),
        "the served name": with_engine(served_name="qwen"),
        "the image": with_engine(image="example.com/engine:1"),
        "the dtype": with_engine(dtype="float16"),
        "the KV dtype": with_engine(kv_cache_dtype="fp8"),
        "the quantization": with_engine(quantization="fp8"),
        "the revision": with_engine(revision=None),
        "the GPUs": with_engine(gpus=2),
        "the engine's port": with_engine(port=8001),
        "the block": with_engine(block_size=96),
        "the chunk": with_server(chunk_size=512),
        "the hash": with_server(hash_algorithm="sha256_cbor"),
        "the drain": with_engine(drain_seconds=120),
        "the grace": with_engine(grace_seconds=120),
        "the workers": with_server(max_workers=2),
        "the HTTP port": with_server(http_port=8081),
        "the heartbeat": with_server(heartbeat_seconds=60),
        "the base path": with_server(l2=replace(server.l2, base_path="/var/kv")),
        "the key": with_server(l2=replace(server.l2, key_secret=None)),
        "the directory": replace(plan, curvine=replace(plan.curvine, volumes=(other_volume,))),
        "the verification's model": with_verification(model="x"),
        "the verification's chunk": with_verification(chunk_size=128),
        "the verification's ports": with_verification(engine_port=8001, lmcache_port=8081),
        "the verification's router": with_verification(router="x"),
        "the verification's router port": with_verification(router_port=1),
        "the verification's policy": with_verification(router_policy="x"),
        "the router's engine port": with_router(engine_port=8001),
        "the router's port": with_router(port=8001),
        "the router's policy": with_router(policy="round_robin"),
    }
    accepted = []
    for what, other in broken.items():
        try:
            render(other)
        except KascadeError as error:
            assert "contradicts itself" in str(error)  # noqa: PT017 - the sentence is under test
        else:
            accepted.append(what)
    assert accepted == []


# --- replicas ---------------------------------------------------------------------------------

_REFERENCE = re.compile(r"\$\(([A-Z_]+)\)")


def _started(program: Object, pod_name: str) -> Object:
    """What a container is started with in a pod of that name, references expanded."""
    values = {
        entry["name"]: entry["value"]
        if "value" in entry
        else pod_name
        if entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath") == "metadata.name"
        else json.dumps(entry["valueFrom"])
        for entry in program.get("env", [])
    }

    def expanded(word: str) -> str:
        return _REFERENCE.sub(lambda found: values.get(found[1], found[0]), word)

    return {
        "command": [expanded(word) for word in program.get("command", [])],
        "args": [expanded(word) for word in program.get("args", [])],
        "env": values,
    }


@pytest.mark.parametrize("name", CONFIGS)
def test_two_replicas_differ_by_their_name_alone(name: str) -> None:
    plan, objects = _rendered(name)
    first, second = "replica-one", "replica-two"
    named = 0
    ours = [engine for engine in plan.engines if engine.operator is None]
    for engine in ours:
        for program in containers(pod(find(objects, "Deployment", engine.name))):
            one, two = _started(program, first), _started(program, second)
            named += one != two
            assert json.dumps(one).replace(first, second) == json.dumps(two)
            assert not [word for word in one["args"] if "$(" in word]
    # The LMCache servers, by their id, and by their folder where there is an L2.
    assert named == len(ours)


def test_the_seed_of_all_engines_is_one() -> None:
    """Of sampling, that is; with another one, equal prompts have different answers."""
    for name in CONFIGS:
        plan, objects = _rendered(name)
        for engine in (e for e in plan.engines if e.operator is None):
            args = container(pod(find(objects, "Deployment", engine.name)), "vllm")["args"]
            assert flags(args)["--seed"] == "0"
