"""The engines' arguments against vLLM's and LMCache's own parsers, in their own environment."""

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kascade import ServingPlan
from kascade.catalog.models import MODELS, ModelFacts
from kascade.kube.l2.adapters import (
    Adapter,
    AesGcm,
    Eviction,
    FsNativeAdapter,
    HyperPodAdapter,
    adapter_json,
)
from kascade.kube.l2.attachment import attach
from kascade.kube.lmcache import server_container
from kascade.kube.vllm import transfer_arg
from kascade.plan import EnginePlan, ManagedL2Plan
from kascade.planning.loading import read_config
from tests.checkout import CONFIGS
from tests.contract.pods import after, arguments, containers
from tools.outputs import Document, Outputs

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-engine" / "bin" / "python"
CHECKS = "tests.contract.engine_checks"

KNOWN_GOOD = "default"
"""The configuration whose arguments the negative controls spoil."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One rendered engine: its plan, its arguments and what the parsers made of them."""

    plan: EnginePlan
    vllm: Document
    lmcache: Document


def shape(engine: EnginePlan, config: str) -> Document:
    """Return the model's real shape in the words of a config.json."""
    facts = MODELS.get(engine.model) or of_own_file(engine, config)
    return {
        "hidden_size": facts.hidden_size,
        "intermediate_size": facts.intermediate_size,
        "num_hidden_layers": facts.layers,
        "num_attention_heads": facts.attention_heads,
        "num_key_value_heads": facts.kv_heads,
        "head_dim": facts.head_dim,
        "vocab_size": facts.vocab_size,
        "max_position_embeddings": facts.context_limit,
        "torch_dtype": facts.dtype,
    }


def of_own_file(engine: EnginePlan, config: str) -> ModelFacts:
    """Return the facts of a model that only the configuration knows."""
    return read_config(ROOT / "config" / f"{config}.yaml").local_models[engine.name]


def ask(job: Document) -> Document:
    """Run the checks in the engine environment."""
    if not PYTHON.exists():
        pytest.fail(
            f"{PYTHON.relative_to(ROOT)} is missing: run `make engine-env`, which installs "
            "vLLM's and LMCache's parsers; nothing else says whether the arguments are right",
            pytrace=False,
        )
    ran = subprocess.run(
        [str(PYTHON), "-m", CHECKS],
        cwd=ROOT,
        input=json.dumps(job),
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    answers: Document = json.loads(ran.stdout)
    return answers


def with_json(words: list[str], flag: str, change: Callable[[Document], object]) -> list[str]:
    """Return the arguments with the JSON value of a flag changed."""
    prefix = f"{flag}="
    (word,) = (word for word in words if word.startswith(prefix))
    value = json.loads(word.removeprefix(prefix))
    change(value)
    return [prefix + json.dumps(value) if other == word else other for other in words]


def of_operator(
    objects: list[Document], plan: ServingPlan
) -> Iterator[tuple[str, Document, Document]]:
    """Yield the two containers of the pods of each InferenceEndpointConfig.

    The rehearsal shows that admission adds exactly these two, and the argument, to the worker.
    """
    engines = {engine.name: engine for engine in plan.engines}
    for item in objects:
        if item["kind"] == "InferenceEndpointConfig":
            name, worker = item["metadata"]["name"], item["spec"]["worker"]
            vllm = {
                "command": worker["command"],
                "args": [*worker["args"], transfer_arg(engines[name])],
                "env": worker["environmentVariables"],
            }
            server = server_container(engines[name], attach(engines[name], plan.network))
            yield name, vllm, json.loads(json.dumps(server))


@pytest.fixture(scope="session")
def rendered(
    synthesized: Callable[[str], Outputs], plan: Callable[[str], ServingPlan]
) -> dict[tuple[str, str], tuple[EnginePlan, list[str], list[str]]]:
    """Return every engine of every configuration with its two lists of arguments."""
    found = {}
    for config in CONFIGS:
        objects = [document for _, document in synthesized(config).objects()]
        engines = {engine.name: engine for engine in plan(config).engines}
        servers = dict(containers(objects, "lmcache"))
        for owner, container in containers(objects, "vllm"):
            name = owner.partition("/")[2]
            engine = next(e for key, e in engines.items() if name in {key, f"engine-{key}"})
            found[config, engine.name] = (
                engine,
                after(arguments(container), "serve"),
                after(arguments(servers[owner]), "server"),
            )
        for name, vllm, lmcache in of_operator(objects, plan(config)):
            found[config, name] = (
                engines[name],
                after(arguments(vllm), "serve"),
                after(arguments(lmcache), "server"),
            )
        assert {name for c, name in found if c == config} == set(engines)
    return found


@pytest.fixture(scope="session")
def answers(
    rendered: dict[tuple[str, str], tuple[EnginePlan, list[str], list[str]]],
) -> Document:
    """Ask once for all engines and all spoilt arguments: importing vLLM takes seconds."""
    job: Document = {"vllm": {}, "lmcache": {}}
    for (config, name), (engine, vllm, lmcache) in rendered.items():
        job["vllm"][f"{config}/{name}"] = {"argv": vllm, "shape": shape(engine, config)}
        job["lmcache"][f"{config}/{name}"] = lmcache
    engine, vllm, lmcache = next(
        entry for (config, _), entry in rendered.items() if config == KNOWN_GOOD
    )
    job["vllm"]["no weights"] = {"argv": vllm, "shape": None}
    for name, (argv, _) in vllm_mistakes(vllm).items():
        job["vllm"][name] = {"argv": argv, "shape": shape(engine, KNOWN_GOOD)}
    for name, (argv, _) in lmcache_mistakes(lmcache).items():
        job["lmcache"][name] = argv
    return ask(job)


@pytest.fixture(scope="session")
def cases(
    rendered: dict[tuple[str, str], tuple[EnginePlan, list[str], list[str]]], answers: Document
) -> Callable[[str], list[Case]]:
    """Return a function from a configuration's name to its engines."""

    def select(config: str) -> list[Case]:
        return [
            Case(
                plan=engine,
                vllm=answers["vllm"][f"{config}/{name}"],
                lmcache=answers["lmcache"][f"{config}/{name}"],
            )
            for (owner, name), (engine, _, _) in rendered.items()
            if owner == config
        ]

    return select


# --- What must be rejected ------------------------------------------------------------------------


Mistakes = dict[str, tuple[list[str], str]]


def vllm_mistakes(good: list[str]) -> Mistakes:
    """Return arguments with one error each, and a part of vLLM's words against it."""
    transfer = "--kv-transfer-config"

    def connector(**changes: object) -> list[str]:
        return with_json(good, transfer, lambda value: value.update(changes))

    return {
        "an unknown flag": ([*good, "--swap-space=4"], "unrecognized arguments"),
        "a word for a number": ([*good, "--max-num-seqs=many"], "invalid int value"),
        "a share above one": ([*good, "--gpu-memory-utilization=1.7"], "less than or equal to 1"),
        "a context the model lacks": ([*good, "--max-model-len=99999999"], "is greater than"),
        "heads that do not divide": ([*good, "--tensor-parallel-size=3"], "must be divisible"),
        "a hash nobody knows": ([*good, "--prefix-caching-hash-algo=md5"], "invalid choice"),
        "an unknown field": (connector(typo=1), "Unexpected keyword argument"),
        "an unknown connector": (connector(kv_connector="No"), "Unsupported connector type"),
        "an unknown role": (connector(kv_role="both"), "Input should be 'kv_producer'"),
    }


def lmcache_mistakes(good: list[str]) -> Mistakes:
    """Return arguments with one error each, and a part of LMCache's words against it."""
    adapter = "--l2-adapter"
    return {
        "an unknown flag": ([*good, "--bogus=1"], "unrecognized arguments"),
        "an abbreviation": ([*good, "--l1-size=4"], "unrecognized arguments"),
        "a policy nobody knows": ([*good, "--eviction-policy=MRU"], "invalid choice"),
        "an unknown adapter": (
            with_json(good, adapter, lambda value: value.update(type="nope")),
            "unknown adapter type",
        ),
        "no base path": (
            with_json(good, adapter, lambda value: value.pop("base_path")),
            "base_path must be",
        ),
    }


@pytest.mark.parametrize("mistake", sorted(vllm_mistakes(["--kv-transfer-config={}"])))
def test_vllm_refuses(answers: Document, mistake: str) -> None:
    _, words = vllm_mistakes(["--kv-transfer-config={}"])[mistake]
    assert words in answers["vllm"][mistake]["rejected"]


@pytest.mark.parametrize("mistake", sorted(lmcache_mistakes(['--l2-adapter={"base_path": ""}'])))
def test_lmcache_refuses(answers: Document, mistake: str) -> None:
    _, words = lmcache_mistakes(['--l2-adapter={"base_path": ""}'])[mistake]
    assert words in answers["lmcache"][mistake]["rejected"]


def test_a_missing_mount_ends_the_engine_and_downloads_nothing(answers: Document) -> None:
    """With HF_HUB_OFFLINE, which is set here as in pods that mount their weights."""
    refused = answers["vllm"]["no weights"]["rejected"]
    assert "LocalEntryNotFoundError" in refused


# --- What the parsers understood -----------------------------------------------------------------


def test_both_programs_accept_every_engine(cases: Callable[[str], list[Case]], config: str) -> None:
    refused = [
        f"{case.plan.name}: {answer['rejected']}"
        for case in cases(config)
        for answer in (case.vllm, case.lmcache)
        if "rejected" in answer
    ]
    assert refused == []


def test_vllm_understands_what_the_plan_says(
    cases: Callable[[str], list[Case]], config: str
) -> None:
    for case in cases(config):
        engine = case.plan
        expected = {
            # The same text for what is loaded, what stands in every key and in LMCache's metrics,
            # and what clients and vLLM's metrics call it; for mounted weights it is their path.
            "model": engine.model,
            "cached_as": engine.model,
            "served_names": [engine.served_name],
            "port": engine.port,
            "tensor_parallel_size": engine.gpus,
            "block_size": engine.block_size,
            "dtype": engine.dtype,
            "max_model_len": engine.max_model_len,
            "gpu_memory_utilization": engine.gpu_memory_utilization,
            "prefix_caching": True,
            "prefix_hash": "sha256_cbor",
            "connector": "LMCacheMPConnector",
            "load_failure_policy": "recompute",
        }
        assert {key: case.vllm[key] for key in expected} == expected


def test_every_gpu_holds_what_the_plan_counts(
    cases: Callable[[str], list[Case]], config: str
) -> None:
    """How tensor parallelism divides the model, by vLLM's own arithmetic; no GPU is needed."""
    for case in cases(config):
        engine, found = case.plan, case.vllm["parallel"]
        facts = MODELS.get(engine.model) or of_own_file(engine, config)
        assert found["world_size"] == engine.gpus
        assert found["attention_heads"] * engine.gpus == facts.attention_heads
        assert found["layers"] == facts.layers
        assert facts.mla is None, "vLLM caches a latent there, which the shape given to it is not"
        value_bytes = 1 if engine.kv_cache_dtype == "fp8" else 2
        of_a_token = 2 * found["layers"] * found["kv_heads"] * found["head_size"] * value_bytes
        assert of_a_token == engine.figures.kv_per_token_per_gpu.value


def test_every_gpu_writes_files_of_its_own(cases: Callable[[str], list[Case]], config: str) -> None:
    """And another tensor parallel size reads none of them: the world size stands in each rank."""
    for case in cases(config):
        gpus, ranks = case.plan.gpus, case.vllm["kv_ranks"]
        assert len(set(ranks)) == gpus
        assert {rank >> 24 for rank in ranks} == {gpus}


def test_some_engine_has_several_gpus(cases: Callable[[str], list[Case]]) -> None:
    assert max(case.plan.gpus for name in CONFIGS for case in cases(name)) > 1


def test_lmcache_understands_what_the_plan_says(
    cases: Callable[[str], list[Case]], config: str
) -> None:
    for case in cases(config):
        server = case.plan.lmcache
        expected = {
            "port": server.port,
            "http_port": server.http_port,
            "chunk_size": server.chunk_size,
            "hash_algorithm": server.hash_algorithm,
            "l1_size_gb": server.l1_gib,
            "prefetch_policy": server.prefetch_policy,
        }
        assert {key: case.lmcache[key] for key in expected} == expected
        assert len(case.lmcache["adapters"]) == (0 if server.l2 is None else 1)


def test_the_two_programs_find_each_other(cases: Callable[[str], list[Case]], config: str) -> None:
    for case in cases(config):
        connector = case.vllm["connector_config"]
        assert connector["lmcache.mp.port"] == case.lmcache["port"]
        assert connector["lmcache.mp.mq_timeout"] == case.plan.lmcache.mq_timeout_seconds
        hashed = connector.get("lmcache.mp.hash_algorithm", "blake3")
        assert hashed == case.lmcache["hash_algorithm"]


# --- What no parser rejects ----------------------------------------------------------------------


def test_no_key_is_silently_ignored(cases: Callable[[str], list[Case]], config: str) -> None:
    for case in cases(config):
        assert case.vllm["unknown_connector_keys"] == []
        assert [adapter["ignored_keys"] for adapter in case.lmcache["adapters"]] in ([], [[]])


def test_chunks_are_whole_blocks_and_hashes_are_stable(
    cases: Callable[[str], list[Case]], config: str
) -> None:
    for case in cases(config):
        chunk, block = case.lmcache["chunk_size"], case.vllm["block_size"]
        assert chunk > 0
        assert chunk % block == 0
        assert block % 16 == 0
        assert case.lmcache["hash_algorithm"] in {"blake3", "sha256_cbor"}


def test_the_shared_tier_is_shared_bounded_and_checked(
    cases: Callable[[str], list[Case]], config: str
) -> None:
    for case in cases(config):
        l2 = case.plan.lmcache.l2
        for adapter in case.lmcache["adapters"]:
            assert l2 is not None
            assert adapter["shared"] is True
            assert adapter["serde"] == ("aesgcm" if l2.key_secret else None)
            if isinstance(l2, ManagedL2Plan):
                assert adapter["url"] == f"sagemaker-hyperpod://node-ip:{l2.port}"
                assert adapter["shared_memory_name"] == l2.shared_memory
                assert adapter["bucket"] == l2.bucket
                # The daemon's own affair.
                assert adapter["eviction"] is False
                continue
            assert adapter["base_path"] == l2.base_path
            assert Path(adapter["base_path"]).is_relative_to(l2.mount_path)
            assert adapter["eviction"] is True
            assert adapter["max_capacity_gb"] == l2.capacity_gib > 0
            folder = adapter["relative_tmp_dir"]
            assert "/" not in folder
            assert folder.strip(".")
            assert "pod-name" in folder, "one folder a pod, or stores of two pods collide"


def test_every_kind_of_l2_is_among_the_configurations(
    cases: Callable[[str], list[Case]],
) -> None:
    types = {
        (type(case.plan.lmcache.l2).__name__, adapter["type"])
        for name in CONFIGS
        for case in cases(name)
        for adapter in case.lmcache["adapters"]
    }
    assert types == {
        ("CurvineL2Plan", "fs_native"),
        ("DirectoryL2Plan", "fs_native"),
        ("ManagedL2Plan", "sagemaker-hyperpod"),
    }


# --- Our types of the adapters -------------------------------------------------------------------


SERDE = AesGcm(master_key_path="/key", aes_bits=256, max_workers=2)
FULL: dict[str, Adapter] = {
    "fs_native": FsNativeAdapter(
        base_path="/mnt/kv",
        relative_tmp_dir=".tmp-$(POD_NAME)",
        num_workers=4,
        max_capacity_gb=1,
        eviction=Eviction(eviction_policy="LRU", trigger_watermark=0.9, eviction_ratio=0.1),
        serde=SERDE,
    ),
    "sagemaker-hyperpod": HyperPodAdapter(
        url="sagemaker-hyperpod://$(NODE_IP):9200",
        bucket="kv-x",
        shared_memory_name="ai_toolkit_cache",
        serde=SERDE,
    ),
}
"""Every field of every type that we can write."""


@pytest.fixture(scope="session")
def adapters(
    rendered: dict[tuple[str, str], tuple[EnginePlan, list[str], list[str]]],
) -> Document:
    """What LMCache made of each type, of its fields under other names, and of a bad mixture."""
    _, _, lmcache = next(entry for (config, _), entry in rendered.items() if config == KNOWN_GOOD)
    rest = [word for word in lmcache if not word.startswith("--l2-adapter=")]

    def with_adapter(value: Document) -> list[str]:
        return [*rest, f"--l2-adapter={json.dumps(value)}"]

    job: Document = {"vllm": {}, "lmcache": {}}
    for kind, adapter in FULL.items():
        value = json.loads(adapter_json(adapter))
        assert set(value) == set(type(adapter).model_fields)
        job["lmcache"][kind] = with_adapter(value)
    evicting = json.loads(adapter_json(FULL["sagemaker-hyperpod"]))
    evicting["eviction"] = json.loads(adapter_json(FULL["fs_native"]))["eviction"]
    job["lmcache"]["evicting"] = with_adapter(evicting)
    answers: Document = ask(job)["lmcache"]
    return answers


@pytest.mark.parametrize("kind", sorted(FULL))
def test_lmcache_reads_every_field_that_we_can_write(adapters: Document, kind: str) -> None:
    (adapter,) = adapters[kind]["adapters"]
    assert adapter["type"] == kind
    assert adapter["ignored_keys"] == []


def test_lmcache_refuses_to_evict_what_hyperpod_owns(adapters: Document) -> None:
    assert "does not support LMCache-owned eviction" in adapters["evicting"]["rejected"]


@pytest.mark.parametrize(
    ("flag", "where"),
    [("--kv-transfer-config", "vllm"), ("--l2-adapter", "lmcache")],
)
def test_our_own_check_sees_a_misspelt_key(
    rendered: dict[tuple[str, str], tuple[EnginePlan, list[str], list[str]]],
    flag: str,
    where: str,
) -> None:
    engine, vllm, lmcache = next(
        entry for (config, _), entry in rendered.items() if config == KNOWN_GOOD
    )

    def misspell(value: Document) -> None:
        target = value.get("kv_connector_extra_config", value)
        target["lmcache.mp.prot" if where == "vllm" else "num_wokers"] = 1

    changed = with_json(vllm if where == "vllm" else lmcache, flag, misspell)
    job: Document = {"vllm": {}, "lmcache": {}}
    job[where]["x"] = (
        {"argv": changed, "shape": shape(engine, KNOWN_GOOD)} if where == "vllm" else changed
    )
    answer = ask(job)[where]["x"]
    if where == "vllm":
        assert answer["unknown_connector_keys"] == ["lmcache.mp.prot"]
    else:
        assert answer["adapters"][0]["ignored_keys"] == ["num_wokers"]
