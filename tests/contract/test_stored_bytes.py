"""What LMCache stores of a token, by LMCache's own code: one row for each model and TP.

And vLLM's own batch sizes for each GPU, which the same process is asked for.
"""

import json
import subprocess
from typing import Any

import pytest

from kascade.catalog.gpus import GPUS
from kascade.catalog.models import MODELS, ModelFacts
from kascade.sizing import gpu
from kascade.sizing.batch import vllm_defaults
from tests.contract.test_engine_arguments import PYTHON, ROOT

CHUNK = 256

LATENT = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "n_group": 8,
    "topk_group": 4,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
}
"""What vLLM wants to know of a model with latent attention beside its sizes."""


def parallelisms(facts: ModelFacts) -> list[int]:
    """GPUs that a replica may have, as the planner allows them."""
    return [
        tp
        for tp in (1, 2, 4, 8)
        if facts.attention_heads % tp == 0
        and (facts.kv_heads % tp == 0 or tp % facts.kv_heads == 0)
    ]


ROWS = [
    (hub_id, tp, dtype)
    for hub_id, facts in sorted(MODELS.items())
    for tp in parallelisms(facts)
    for dtype in ("auto", "fp8")
    if dtype == "auto" or tp == max(parallelisms(facts))
]


def shape(facts: ModelFacts) -> dict[str, Any]:
    """The model's sizes in the words of a config.json."""
    sizes = {
        "hidden_size": facts.hidden_size,
        "intermediate_size": facts.intermediate_size,
        "num_hidden_layers": facts.layers,
        "num_attention_heads": facts.attention_heads,
        "num_key_value_heads": facts.kv_heads,
        "vocab_size": facts.vocab_size,
        "max_position_embeddings": facts.context_limit,
        "torch_dtype": facts.dtype,
    }
    if facts.mla is None:
        return sizes | {"head_dim": facts.head_dim}
    ranks = {name: getattr(facts.mla, name) for name in ("kv_lora_rank", "qk_rope_head_dim")}
    return sizes | LATENT | ranks


def job(hub_id: str, tp: int, dtype: str) -> dict[str, Any]:
    facts = MODELS[hub_id]
    return {"shape": shape(facts), "tp": tp, "kv_cache_dtype": dtype, "chunk": CHUNK}


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """Ask once for all rows; models of one shape are one question."""
    assert PYTHON.exists(), "run `make engine-env`"
    wanted = {json.dumps(job(*row), sort_keys=True): job(*row) for row in ROWS}
    ran = subprocess.run(
        [str(PYTHON), "-m", "tests.contract.stored_checks"],
        cwd=ROOT,
        input=json.dumps(
            {"stored": wanted, "gpus": {name: kind.memory_mib for name, kind in GPUS.items()}}
        ),
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize(("hub_id", "tp", "dtype"), ROWS)
def test_the_plan_counts_what_lmcache_stores(
    answers: dict[str, Any], hub_id: str, tp: int, dtype: str
) -> None:
    """Within 2 %, and to the byte as long as LMCache adds nothing of its own."""
    facts = MODELS[hub_id]
    answer = answers["stored"][json.dumps(job(hub_id, tp, dtype), sort_keys=True)]
    assert answer["mla"] == (facts.mla is not None)
    assert answer["writers"] == gpu.storing_gpus(facts, tp)
    planned = gpu.stored_bytes_per_token(facts, kv_cache_dtype=dtype, tensor_parallel=tp)
    assert planned == pytest.approx(answer["bytes_per_token"], rel=0.02)


@pytest.mark.parametrize("name", sorted(GPUS))
def test_batch_defaults_are_vllms_own(answers: dict[str, Any], name: str) -> None:
    assert list(vllm_defaults(GPUS[name])[:2]) == answers["gpus"][name]


def test_some_row_has_fewer_kv_heads_than_gpus_and_some_is_latent() -> None:
    """So that the rows above say something of both."""
    assert any(MODELS[hub_id].kv_heads < tp for hub_id, tp, _ in ROWS)
    assert any(MODELS[hub_id].mla is not None and tp == 8 for hub_id, tp, _ in ROWS)
