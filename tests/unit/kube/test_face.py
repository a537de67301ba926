"""What a person imports of `kascade.kube`, and parts that are planned without a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cdk8s
import pytest

from kascade import kube
from kascade.catalog.images import IMAGES
from kascade.errors import KascadeError
from kascade.plan import CurvinePlan, EnginePlan, ServingPlan
from tests.unit.kube.rendered import Object, find, flags, of_kind, pod, texts

GPUS = kube.Nodes(group="Gpu", instance_type="ml.g6e.4xlarge", count=2)
MODEL: dict[str, Any] = {
    "name": "qwen",
    "namespace": "a-team-with-a-long-name",
    "model": "Qwen/Qwen2-7B-Instruct",
    "replicas": 2,
    "nodes": GPUS,
}
POOL: dict[str, Any] = {"namespace": "shared-files", "nodes": [GPUS]}
TINY = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "intermediate_size": 1024,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def chart() -> cdk8s.Chart:
    return cdk8s.Chart(cdk8s.Testing.app(), "part")


def test_it_lists_what_a_person_needs_and_has_all_of_it() -> None:
    assert dir(kube) == sorted(kube.__all__)
    assert all(getattr(kube, name).__doc__ for name in kube.__all__)
    with pytest.raises(AttributeError, match="Engin"):
        _ = kube.Engin  # type: ignore[attr-defined]


def test_a_pool_alone_is_the_pool_of_a_deployment(curvine: CurvinePlan) -> None:
    alone = kube.plan_pool(**POOL, name=curvine.cluster_id).curvine
    (mine,), (theirs,) = alone.workers, curvine.workers
    assert (mine.capacity_gib, mine.size) == (theirs.capacity_gib, theirs.size)
    assert (mine.group, mine.nodes) == ("Gpu", 2)
    assert alone.csi_size == curvine.csi_size
    assert alone.host_path == curvine.host_path
    assert alone.namespace == "shared-files"
    # The driver has the size of these nodes, so it stands on no others.
    assert alone.driver_groups == ("Gpu",)


def test_a_volume_is_renamed_with_whatever_cannot_be_changed_in_it() -> None:
    def claims(**changed: Any) -> tuple[str, ...]:
        given = {**POOL, "volumes": ["a", "b"], "client_namespace": "apps", **changed}
        volumes = kube.plan_pool(**given).curvine.volumes
        assert {volume.claim_namespace for volume in volumes} == {given["client_namespace"]}
        return tuple(volume.name for volume in volumes)

    assert claims() == claims() == claims(capacity_gib_per_node=100)
    changes: list[dict[str, Any]] = [{"ttl_hours": 1}, {"masters": 3}, {"namespace": "other"}]
    for changed in changes:
        assert not set(claims(**changed)) & set(claims())
    # `heal-mounts` knows the pool's volumes by this.
    assert all(name.startswith("kv-") for name in claims())


def test_a_pool_stands_in_its_namespace(chart: cdk8s.Chart) -> None:
    nodes = kube.Nodes(group="g", instance_type="ml.g6e.4xlarge", count=3, taint_keys=["team"])
    plan = kube.plan_pool(
        namespace="files",
        nodes=[nodes],
        masters=3,
        volumes=["blocks"],
        client_namespace="apps",
        images={"curvine": "registry.example/curvine:1"},
        vpc_cidrs=["10.0.0.0/16", "100.64.0.0/16"],
        collector_cidrs=["10.0.9.0/28"],
    )
    kube.CurvinePool(chart, "Pool", pool=plan)
    objects: list[Object] = chart.to_json()
    spaces = {item["metadata"].get("namespace") for item in objects}
    assert spaces == {None, "files", "apps"}
    (workers,) = (
        item for item in of_kind(objects, "DaemonSet") if "worker" in item["metadata"]["name"]
    )
    assert "team" in {each["key"] for each in pod(workers)["tolerations"]}
    masters = find(objects, "StatefulSet", "curvine-master")
    assert masters["spec"]["replicas"] == 3
    assert pod(masters)["containers"][0]["image"] == "registry.example/curvine:1"
    said = set(texts(objects))
    assert {"100.64.0.0/16", "10.0.9.0/28"} <= said
    assert not {text for text in said if "files.svc" not in text and "pool-cache" in text}


def test_a_model_alone_is_that_of_a_deployment_without_l2(engine: EnginePlan) -> None:
    alone = kube.plan_model(**MODEL)
    same = ("image", "gpus", "max_model_len", "max_num_seqs", "size", "weights_volume_gib")
    for field in same:
        assert getattr(alone.engine, field) == getattr(engine, field), field
    assert alone.engine.lmcache.l2 is None
    # What nobody else takes of the node is L1's.
    assert alone.engine.lmcache.l1_gib > engine.lmcache.l1_gib
    assert alone.router.engine == "qwen"
    assert alone.router.name == "qwen-router"
    assert {alone.engine.namespace, alone.router.namespace} == {MODEL["namespace"]}


def test_settings_reach_the_programs(chart: cdk8s.Chart) -> None:
    plan = kube.plan_model(
        **{**MODEL, "replicas": 1},
        max_model_len=4096,
        l1_gib=7,
        strategy="roundrobin",
        images={"router": "registry.example/router:1"},
    )
    kube.Engine(chart, "Engine", engine=plan.engine, network=plan.network)
    kube.Router(chart, "Router", router=plan.router, network=plan.network)
    objects: list[Object] = chart.to_json()
    kube.check_agreement(objects)
    spec = pod(find(objects, "Deployment", "qwen"))
    vllm, lmcache = spec["containers"][0], spec["initContainers"][-1]
    assert flags(vllm["args"])["--max-model-len"] == "4096"
    assert flags(lmcache["args"])["--l1-size-gb"] == "7"
    (router,) = pod(find(objects, "Deployment", "qwen-router"))["containers"]
    assert router["image"] == "registry.example/router:1"
    assert flags(router["args"])["--policy"] == "round_robin"
    # Nobody was said to collect metrics, so nobody is let in.
    policies = [item["spec"] for item in of_kind(objects, "NetworkPolicy")]
    assert not [
        t
        for spec in policies
        for t in texts(spec.get("ingress", []))
        if "/" in t and t[0].isdigit()
    ]


def test_a_model_that_nobody_knows_comes_with_its_config_json() -> None:
    plan = kube.plan_model(**{**MODEL, "model": "mine/tiny"}, hf_config=TINY)
    assert plan.engine.model == "mine/tiny"
    assert plan.engine.max_model_len == 4096


def test_nodes_may_be_of_several_types() -> None:
    nodes = kube.Nodes(group="g", instance_type=("ml.g6e.4xlarge", "ml.g6e.8xlarge"), count=2)
    plan = kube.plan_model(**{**MODEL, "nodes": nodes})
    assert plan.engine.instance_types == ("ml.g6e.4xlarge", "ml.g6e.8xlarge")
    assert plan.engine.lmcache.l1_gib == kube.plan_model(**MODEL).engine.lmcache.l1_gib


def test_a_namespace_is_closed_and_takes_what_it_is_for(chart: cdk8s.Chart) -> None:
    kube.ClosedNamespace(chart, "Serving", name="llm")
    kube.ClosedNamespace(chart, "Pool", name="pool", privileged=True)
    kube.EnginePrograms(chart, "Programs", namespace="llm")
    objects: list[Object] = chart.to_json()
    level = "pod-security.kubernetes.io/enforce"
    assert {
        item["metadata"]["name"]: item["metadata"]["labels"][level]
        for item in of_kind(objects, "Namespace")
    } == {"llm": "baseline", "pool": "privileged"}
    closed = [
        item["metadata"]["namespace"]
        for item in of_kind(objects, "NetworkPolicy")
        if item["metadata"]["name"] == "default-deny"
    ]
    assert closed == ["llm", "pool"]


def nodes(**changed: Any) -> kube.Nodes:
    return kube.Nodes(**{"group": "g", "instance_type": "ml.g6e.4xlarge", "count": 2, **changed})


WRONG_MODELS: dict[str, list[dict[str, Any]]] = {
    "name": [{"name": "Qwen"}, {"name": 7}, {"name": "a-router"}],
    "namespace": [{"namespace": "LLM"}, {"namespace": None}],
    "model": [{"model": "nobody/knows-it"}, {"model": "Qwen/Qwen2.5-72B-Instruct"}],
    "replicas": [{"replicas": 0}, {"replicas": "2"}, {"replicas": True}],
    "nodes": [{"nodes": [GPUS]}, {"nodes": None}],
    "nodes.count": [{"replicas": 3}, {"nodes": nodes(count=-1)}],
    "nodes.group": [{"nodes": nodes(group="a b")}],
    "nodes.instance_type": [
        {"nodes": nodes(instance_type="ml.g6e")},
        {"nodes": nodes(instance_type=7)},
    ],
    "nodes.instance_type[1]": [
        {"nodes": nodes(instance_type=["ml.g6e.4xlarge", "ml.p5.48xlarge"])}
    ],
    "nodes.taint_keys[0]": [{"nodes": nodes(taint_keys=["a b"])}, {"nodes": nodes(taint_keys=7)}],
    "hf_config": [{"hf_config": {}}, {"hf_config": "config.json"}],
    "max_length": [{"max_length": 5}],
    "max_model_len": [{"max_model_len": 10**6}, {"max_model_len": 5}],
    "tensor_parallel": [{"tensor_parallel": 2}],
    "l1_gib": [{"l1_gib": 1000}],
    "strategy": [{"strategy": "kvaware"}, {"strategy": "random"}],
    "huggingface_token_secret": [{"model": "meta-llama/Llama-3.1-8B-Instruct"}],
    "images.engine": [{"images": {"engine": "UPPER"}}],
    "vpc_cidrs": [{"vpc_cidrs": "10.0.0.0/16"}, {"vpc_cidrs": ["10.0.0.1/16"]}],
    "collector_cidrs": [{"collector_cidrs": [5]}],
}

WRONG_POOLS: dict[str, list[dict[str, Any]]] = {
    "namespace": [{"namespace": "-a"}],
    "name": [{"name": "x" * 21}],
    "nodes": [{"nodes": GPUS}, {"nodes": []}],
    "nodes[1].group": [{"nodes": [GPUS, GPUS]}],
    "masters": [{"masters": 2}, {"masters": True}],
    "ttl_hours": [{"ttl_hours": 0}],
    "capacity_gib_per_node": [{"capacity_gib_per_node": 600}],
    "reserved_gib_per_node": [{"capacity_gib_per_node": 20}],
    "nvme_mount": [{"nvme_mount": "nvme/"}],
    "volumes": [
        {"volumes": "blocks"},
        {"volumes": ["Blocks"], "client_namespace": "a"},
        {"volumes": ["a", "a"], "client_namespace": "a"},
    ],
    "client_namespace": [{"volumes": ["a"]}, {"client_namespace": "A"}],
    "volume": [{"volume": ["a"]}],
}

REFUSED = [
    *((kube.plan_model, MODEL, at, given) for at, many in WRONG_MODELS.items() for given in many),
    *((kube.plan_pool, POOL, at, given) for at, many in WRONG_POOLS.items() for given in many),
]


@pytest.mark.parametrize(("make", "right", "argument", "given"), REFUSED)
def test_a_wrong_argument_is_one_sentence_that_names_it(
    make: Callable[..., object], right: dict[str, Any], argument: str, given: dict[str, Any]
) -> None:
    with pytest.raises(KascadeError) as caught:
        make(**{**right, **given})
    (line,) = [
        text for text in str(caught.value).splitlines() if not text.startswith("client_namespace")
    ] or str(caught.value).splitlines()
    assert line.startswith(f"{argument}: ")
    # Nobody who imports a part has a file.
    for word in ("models[", "instance_groups", "cache.", "router.", "config_json", "hyperpod."):
        assert word not in line


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(KascadeError) as caught:
        kube.plan_model(**{**MODEL, "namespace": "A", "replicas": 0}, max_model_len=5)
    said = [line.split(":")[0] for line in str(caught.value).splitlines()]
    assert sorted(said) == ["max_model_len", "namespace", "replicas"]


def test_another_plan_than_a_construct_takes_is_one_sentence(
    chart: cdk8s.Chart, default_plan: ServingPlan
) -> None:
    model, pool = kube.plan_model(**MODEL), kube.plan_pool(**POOL)
    network: Any = default_plan.network
    makes: dict[str, Callable[[], object]] = {
        "engine": lambda: kube.Engine(chart, "a", engine=model, network=network),  # type: ignore[arg-type]
        "router": lambda: kube.Router(chart, "b", router=model.engine, network=network),  # type: ignore[arg-type]
        "pool": lambda: kube.CurvinePool(chart, "c", pool=pool.curvine),  # type: ignore[arg-type]
        "volume": lambda: kube.CurvineVolume(chart, "d", curvine=pool.curvine, volume="a"),  # type: ignore[arg-type]
    }
    for argument, make in makes.items():
        with pytest.raises(KascadeError) as caught:
            make()
        assert str(caught.value).startswith(f"{argument} is a ")
        assert "\n" not in str(caught.value)
    for name, space in (("e", "A"), ("f", None)):
        with pytest.raises(KascadeError):
            kube.ClosedNamespace(chart, name, name=space)  # type: ignore[arg-type]
        with pytest.raises(KascadeError):
            kube.EnginePrograms(chart, f"{name}2", namespace=space)  # type: ignore[arg-type]


def test_roles_of_images_are_those_that_the_page_names() -> None:
    for settings in (kube.PoolSettings, kube.ModelSettings):
        assert settings.__doc__ is not None
        named = settings.__doc__.partition("Image references by role (")[2].partition(")")[0]
        roles = [word.strip("` \n") for word in named.split(",")]
        assert roles
        assert set(roles) <= {*IMAGES, "engine", "router", "jobs"}
