"""Model facts: counted weights against published ones, and what the reader rejects."""

from __future__ import annotations

import pytest

from kascade.catalog.models import MODELS, MlaRanks, ModelFacts, facts_from_hf_config

# Billions of parameters as the model cards print them.
PUBLISHED = {
    "Qwen/Qwen2-7B-Instruct": 7.62,
    "Qwen/Qwen2.5-7B-Instruct": 7.61,
    "Qwen/Qwen2.5-14B-Instruct": 14.7,
    "Qwen/Qwen2.5-32B-Instruct": 32.5,
    "Qwen/Qwen2.5-72B-Instruct": 72.7,
    "Qwen/Qwen3-8B": 8.2,
    "Qwen/Qwen3-14B": 14.8,
    "Qwen/Qwen3-32B": 32.8,
    "Qwen/Qwen3-30B-A3B": 30.5,
    "meta-llama/Llama-3.1-8B-Instruct": 8.03,
    "meta-llama/Llama-3.1-70B-Instruct": 70.6,
    "meta-llama/Llama-3.3-70B-Instruct": 70.6,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1.78,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": 7.62,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": 14.8,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": 32.8,
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": 8.03,
    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B": 70.6,
    "deepseek-ai/DeepSeek-V3": 671.0,
}

LLAMA: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": False,
}

QWEN3_MOE: dict[str, object] = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16",
    "sliding_window": None,
    "use_sliding_window": False,
}

DEEPSEEK_V3: dict[str, object] = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "num_nextn_predict_layers": 1,
    "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}


def family(hub_id: str) -> str:
    if "Qwen3" in hub_id:
        return "qwen3"
    return "llama" if "Llama" in hub_id else "qwen2"


def config_of(facts: ModelFacts) -> dict[str, object]:
    return {
        "model_type": family(facts.hub_id),
        "hidden_size": facts.hidden_size,
        "num_hidden_layers": facts.layers,
        "intermediate_size": facts.intermediate_size,
        "num_attention_heads": facts.attention_heads,
        "num_key_value_heads": facts.kv_heads,
        "head_dim": facts.head_dim,
        "vocab_size": facts.vocab_size,
        "max_position_embeddings": facts.context_limit,
        "torch_dtype": facts.dtype,
    }


DENSE = sorted(n for n, m in MODELS.items() if m.active_parameters == m.parameters)


def test_the_list_is_the_published_one() -> None:
    assert set(MODELS) == set(PUBLISHED)
    assert len(DENSE) == 17


@pytest.mark.parametrize("hub_id", sorted(PUBLISHED))
def test_parameters_agree_with_the_model_card(hub_id: str) -> None:
    assert MODELS[hub_id].parameters / 1e9 == pytest.approx(PUBLISHED[hub_id], rel=0.01)


@pytest.mark.parametrize("hub_id", DENSE)
def test_shapes_give_exactly_the_listed_parameters(hub_id: str) -> None:
    counted = facts_from_hf_config(hub_id, config_of(MODELS[hub_id]))
    assert counted.parameters == counted.active_parameters == MODELS[hub_id].parameters
    assert counted.weight_bytes_per_parameter == 2.0
    assert counted.gated == MODELS[hub_id].gated


@pytest.mark.parametrize("hub_id", sorted(MODELS))
def test_shapes_hang_together(hub_id: str) -> None:
    facts = MODELS[hub_id]
    assert facts.hub_id == hub_id
    assert facts.attention_heads % facts.kv_heads == 0
    assert facts.active_parameters <= facts.parameters
    assert facts.context_limit % 1024 == 0
    assert facts.dtype == "bfloat16"
    assert hub_id in facts.source
    assert facts.gated == hub_id.startswith("meta-llama/")


@pytest.mark.parametrize(
    ("hub_id", "kv_bytes"),
    [
        ("Qwen/Qwen2-7B-Instruct", 57_344),
        ("Qwen/Qwen3-32B", 262_144),
        ("meta-llama/Llama-3.1-8B-Instruct", 131_072),
        ("meta-llama/Llama-3.3-70B-Instruct", 327_680),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", 28_672),
    ],
)
def test_kv_cache_of_one_token(hub_id: str, kv_bytes: int) -> None:
    facts = MODELS[hub_id]
    assert facts.layers * facts.kv_heads * facts.head_dim * 2 * 2 == kv_bytes


def test_qwen3_mixture() -> None:
    listed = MODELS["Qwen/Qwen3-30B-A3B"]
    counted = facts_from_hf_config("Qwen/Qwen3-30B-A3B", QWEN3_MOE)
    assert counted.parameters == listed.parameters == 30_532_122_624
    assert counted.active_parameters == listed.active_parameters
    assert listed.active_parameters / 1e9 == pytest.approx(3.3, rel=0.02)
    assert counted.head_dim == 128  # not hidden / heads


def test_deepseek_v3() -> None:
    listed = MODELS["deepseek-ai/DeepSeek-V3"]
    counted = facts_from_hf_config("deepseek-ai/DeepSeek-V3", DEEPSEEK_V3)
    assert counted.parameters == listed.parameters
    assert counted.active_parameters == listed.active_parameters
    assert counted.mla == listed.mla == MlaRanks(kv_lora_rank=512, qk_rope_head_dim=64)
    assert counted.head_dim == listed.head_dim == 192
    assert counted.weight_bytes_per_parameter == pytest.approx(1.0, rel=0.01)
    # The model's own notes: 36.6e9 active without the input embedding.
    without_embedding = listed.active_parameters - listed.vocab_size * listed.hidden_size
    assert without_embedding / 1e9 == pytest.approx(36.6, abs=0.05)


def test_mixtral_keeps_its_experts_in_intermediate_size() -> None:
    config = LLAMA | {
        "model_type": "mixtral",
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "vocab_size": 32000,
        "max_position_embeddings": 32768,
    }
    facts = facts_from_hf_config("mistralai/Mixtral-8x7B-Instruct-v0.1", config)
    assert facts.parameters == 46_702_792_704  # as published
    assert facts.active_parameters / 1e9 == pytest.approx(12.9, rel=0.01)


def test_sparse_steps_and_dense_exceptions() -> None:
    every = facts_from_hf_config("a/b", QWEN3_MOE)
    second = facts_from_hf_config("a/b", QWEN3_MOE | {"decoder_sparse_step": 2})
    named = facts_from_hf_config("a/b", QWEN3_MOE | {"mlp_only_layers": list(range(0, 48, 2))})
    assert second.parameters == named.parameters < every.parameters


def test_tied_embeddings_count_once() -> None:
    untied = facts_from_hf_config("a/b", LLAMA)
    tied = facts_from_hf_config("a/b", LLAMA | {"tie_word_embeddings": True})
    assert untied.parameters - tied.parameters == 128256 * 4096


def test_missing_defaults_follow_hugging_face() -> None:
    config = {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}
    facts = facts_from_hf_config("a/b", config)
    assert (facts.kv_heads, facts.head_dim) == (32, 128)


def test_multimodal_models_are_read_from_text_config() -> None:
    inner = {k: v for k, v in LLAMA.items() if k != "torch_dtype"}
    outer = {"model_type": "llava", "torch_dtype": "float16", "text_config": inner}
    facts = facts_from_hf_config("a/b", outer | {"vision_config": {"hidden_size": 1024}})
    assert facts.parameters == MODELS["meta-llama/Llama-3.1-8B-Instruct"].parameters
    assert facts.dtype == "float16"


def test_new_spelling_of_dtype() -> None:
    config = {k: v for k, v in LLAMA.items() if k != "torch_dtype"} | {"dtype": "bfloat16"}
    assert facts_from_hf_config("a/b", config).dtype == "bfloat16"


@pytest.mark.parametrize(
    ("quantization", "inner_bytes"),
    [
        ({"quant_method": "fp8"}, 1.0),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 0.5 + 2.5 / 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, 0.5 + 2.5 / 32),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 1.0),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "group_size": None}}},
            },
            1.0,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 128}}},
            },
            0.5 + 2 / 128,
        ),
    ],
)
def test_quantized_weights(quantization: dict[str, object], inner_bytes: float) -> None:
    facts = facts_from_hf_config("a/b", LLAMA | {"quantization_config": quantization})
    embeddings = 2 * 128256 * 4096
    expected = embeddings * 2 + (facts.parameters - embeddings) * inner_bytes
    assert facts.weight_bytes_per_parameter * facts.parameters == pytest.approx(expected)


def test_a_four_bit_checkpoint_has_its_real_size() -> None:
    config = config_of(MODELS["Qwen/Qwen2.5-7B-Instruct"]) | {
        "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}
    }
    facts = facts_from_hf_config("Qwen/Qwen2.5-7B-Instruct-AWQ", config)
    gigabytes = facts.parameters * facts.weight_bytes_per_parameter / 1e9
    assert gigabytes == pytest.approx(5.57, abs=0.02)


def test_all_mistakes_are_named_at_once() -> None:
    broken: dict[str, object] = {
        "model_type": "llama",
        "hidden_size": "4096",
        "num_hidden_layers": 0,
        "num_attention_heads": 32,
        "vocab_size": True,
        "torch_dtype": "float32",
        "hidden_act": "gelu",
        "tie_word_embeddings": "no",
    }
    with pytest.raises(ValueError, match=r"^a/b: config\.json cannot be used: ") as caught:
        facts_from_hf_config("a/b", broken)
    for part in (
        "hidden_size is '4096', needed is a whole number from 1 to 10,000,000",
        "num_hidden_layers is 0",
        "vocab_size is True",
        "intermediate_size is missing",
        "max_position_embeddings is missing",
        "torch_dtype is 'float32', needed is bfloat16 or float16",
        "hidden_act is 'gelu'",
        "tie_word_embeddings is 'no', needed is true or false",
    ):
        assert part in str(caught.value)


def test_consequences_of_a_missing_key_are_not_reported() -> None:
    config = {k: v for k, v in LLAMA.items() if k != "num_attention_heads"}
    with pytest.raises(ValueError, match="num_attention_heads is missing") as caught:
        facts_from_hf_config("a/b", config)
    assert ";" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_key_value_heads": 7}, "needed is a multiple of num_key_value_heads"),
        ({"num_attention_heads": 30, "num_key_value_heads": 10}, "head_dim is missing"),
        ({"quantization_config": {"quant_method": "gguf"}}, "quant_method is 'gguf'"),
        ({"quantization_config": "fp8"}, "quantization_config is 'fp8', needed is an object"),
        (
            {"quantization_config": {"quant_method": "compressed-tensors"}},
            "config_groups is missing",
        ),
        ({"num_experts": 4, "num_experts_per_tok": 8}, "needed is at most num_experts"),
        ({"num_experts": 4}, "num_experts_per_tok is missing"),
        ({"kv_lora_rank": 512}, "qk_rope_head_dim is missing"),
        (
            {"num_experts": 4, "num_experts_per_tok": 1, "mlp_only_layers": "none"},
            "mlp_only_layers is 'none', needed is a list of whole numbers",
        ),
    ],
)
def test_single_mistakes(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        facts_from_hf_config("a/b", LLAMA | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mistral", "sliding_window": 4096}, "sliding-window attention over 4096"),
        (
            {"model_type": "qwen2", "sliding_window": 131072, "use_sliding_window": True},
            "sliding-window attention over 131072",
        ),
        (
            {"layer_types": ["full_attention", "sliding_attention"]},
            "layer_types contains sliding_attention besides full_attention",
        ),
        ({"layer_types": ["linear_attention"] * 32}, "layer_types contains linear_attention"),
        ({"model_type": "gemma2"}, "model_type 'gemma2' mixes"),
        ({"model_type": "gemma3"}, "model_type 'gemma3' mixes"),
        ({"model_type": "jamba"}, "model_type 'jamba' mixes"),
        ({"model_type": "qwen3_next"}, "model_type 'qwen3_next' mixes"),
        ({"mamba_d_state": 128}, "mamba_d_state marks a hybrid"),
        ({"full_attention_interval": 4}, "full_attention_interval marks"),
        ({"is_encoder_decoder": True}, "encoder-decoder"),
        ({"text_config": {"model_type": "gemma3_text"}}, "model_type 'gemma3_text' mixes"),
    ],
)
def test_layouts_that_cannot_be_sized_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        facts_from_hf_config("a/b", LLAMA | change)


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "qwen2", "sliding_window": 131072, "use_sliding_window": False},
        {"model_type": "qwen2", "sliding_window": 131072},
        {"model_type": "mistral", "sliding_window": None},
        {"layer_types": ["full_attention"] * 32},
        {"attention_chunk_size": None},
    ],
)
def test_full_attention_is_accepted(change: dict[str, object]) -> None:
    assert facts_from_hf_config("a/b", LLAMA | change).layers == 32
