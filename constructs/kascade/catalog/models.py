"""Model shapes: what decides the size of weights and of the KV cache.

``MODELS`` lists models by their Hugging Face id. Any other model is read from its ``config.json``
by ``facts_from_hf_config``, which rejects every layout whose KV cache does not grow with each
token in each layer: such a cache cannot be sized from these facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class MlaRanks:
    """Multi-head latent attention: a layer caches one latent vector a token, not keys and values.

    Attributes:
        kv_lora_rank: Width of the compressed keys and values.
        qk_rope_head_dim: Width of the rotary key, shared by all heads.
    """

    kv_lora_rank: int
    qk_rope_head_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """One model.

    Attributes:
        hub_id: Its name on Hugging Face.
        parameters: All weights of the language model, without multi-token-prediction layers and
            without vision towers.
        active_parameters: Weights one token passes through: all of them, less the experts not
            chosen. The input embedding counts, as it does in ``parameters``.
        layers: Transformer layers, each with a KV cache.
        hidden_size: Width of the residual stream.
        intermediate_size: Width of a dense MLP.
        attention_heads: Query heads.
        kv_heads: Key and value heads; with MLA the formal number, which sizes nothing.
        head_dim: Width of a head; with MLA that of a query head.
        vocab_size: Rows of the embedding.
        context_limit: Longest sequence the config.json allows, in tokens.
        dtype: ``bfloat16`` or ``float16``.
        weight_bytes_per_parameter: Mean over all weights.
        mla: The latent attention's ranks, or None.
        gated: True when the download needs a Hugging Face token with an accepted licence.
        source: Where the shape comes from.
    """

    hub_id: str
    parameters: int
    active_parameters: int
    layers: int
    hidden_size: int
    intermediate_size: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    context_limit: int
    dtype: str
    weight_bytes_per_parameter: float
    mla: MlaRanks | None
    gated: bool
    source: str


# --- The list ----------------------------------------------------------------------------------

_Shape = tuple[int, int, int, int, int, int, int]

# parameters, layers, hidden, intermediate, heads, KV heads, vocabulary; heads are 128 wide
_DENSE_SHAPES: Final[Mapping[str, _Shape]] = {
    "qwen2 1.5b": (1_777_088_000, 28, 1536, 8960, 12, 2, 151936),
    "qwen2 7b": (7_615_616_512, 28, 3584, 18944, 28, 4, 152064),
    "qwen2 14b": (14_770_033_664, 48, 5120, 13824, 40, 8, 152064),
    "qwen2 32b": (32_763_876_352, 64, 5120, 27648, 40, 8, 152064),
    "qwen2 72b": (72_706_203_648, 80, 8192, 29568, 64, 8, 152064),
    "qwen3 8b": (8_190_735_360, 36, 4096, 12288, 32, 8, 151936),
    "qwen3 14b": (14_768_307_200, 40, 5120, 17408, 40, 8, 151936),
    "qwen3 32b": (32_762_123_264, 64, 5120, 25600, 64, 8, 151936),
    "llama3 8b": (8_030_261_248, 32, 4096, 14336, 32, 8, 128256),
    "llama3 70b": (70_553_706_496, 80, 8192, 28672, 64, 8, 128256),
}

# hub id, shape, context limit, and whether a copy of that very config.json was seen; "reported"
# stands in the source of the others, whose base model's or sister's file was seen
_DENSE: Final[tuple[tuple[str, str, int, bool], ...]] = (
    ("Qwen/Qwen2-7B-Instruct", "qwen2 7b", 32768, True),
    ("Qwen/Qwen2.5-7B-Instruct", "qwen2 7b", 32768, True),
    ("Qwen/Qwen2.5-14B-Instruct", "qwen2 14b", 32768, False),
    ("Qwen/Qwen2.5-32B-Instruct", "qwen2 32b", 32768, True),
    ("Qwen/Qwen2.5-72B-Instruct", "qwen2 72b", 32768, True),
    ("Qwen/Qwen3-8B", "qwen3 8b", 40960, True),
    ("Qwen/Qwen3-14B", "qwen3 14b", 40960, True),
    ("Qwen/Qwen3-32B", "qwen3 32b", 40960, True),
    ("meta-llama/Llama-3.1-8B-Instruct", "llama3 8b", 131072, False),
    ("meta-llama/Llama-3.1-70B-Instruct", "llama3 70b", 131072, False),
    ("meta-llama/Llama-3.3-70B-Instruct", "llama3 70b", 131072, False),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "qwen2 1.5b", 131072, True),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen2 7b", 131072, False),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "qwen2 14b", 131072, False),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "qwen2 32b", 131072, False),
    ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama3 8b", 131072, False),
    ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "llama3 70b", 131072, False),
)

_GATED_OWNERS: Final = ("meta-llama/",)


def _source(hub_id: str, *, seen: bool) -> str:
    return f"{'' if seen else 'reported: '}Hugging Face config.json of {hub_id}"


_MIXTURES: Final = (
    ModelFacts(
        hub_id="Qwen/Qwen3-30B-A3B",
        parameters=30_532_122_624,
        active_parameters=3_353_032_704,
        layers=48,
        hidden_size=2048,
        intermediate_size=6144,
        attention_heads=32,
        kv_heads=4,
        head_dim=128,
        vocab_size=151936,
        context_limit=40960,
        dtype="bfloat16",
        weight_bytes_per_parameter=2.0,
        mla=None,
        gated=False,
        source=_source("Qwen/Qwen3-30B-A3B", seen=True),
    ),
    # 671e9 is the main model. The checkpoint's 685e9 include one multi-token-prediction layer,
    # which vLLM loads only when asked. The model card's 37e9 active leave out the input embedding.
    ModelFacts(
        hub_id="deepseek-ai/DeepSeek-V3",
        parameters=671_026_419_200,
        active_parameters=37_552_297_472,
        layers=61,
        hidden_size=7168,
        intermediate_size=18432,
        attention_heads=128,
        kv_heads=128,
        head_dim=192,
        vocab_size=129280,
        context_limit=163840,
        dtype="bfloat16",
        weight_bytes_per_parameter=1.0,
        mla=MlaRanks(kv_lora_rank=512, qk_rope_head_dim=64),
        gated=False,
        source=_source("deepseek-ai/DeepSeek-V3", seen=True),
    ),
)


def _dense(hub_id: str, shape: _Shape, context_limit: int, source: str) -> ModelFacts:
    parameters, layers, hidden, intermediate, heads, kv_heads, vocabulary = shape
    return ModelFacts(
        hub_id=hub_id,
        parameters=parameters,
        active_parameters=parameters,
        layers=layers,
        hidden_size=hidden,
        intermediate_size=intermediate,
        attention_heads=heads,
        kv_heads=kv_heads,
        head_dim=128,
        vocab_size=vocabulary,
        context_limit=context_limit,
        dtype="bfloat16",
        weight_bytes_per_parameter=2.0,
        mla=None,
        gated=hub_id.startswith(_GATED_OWNERS),
        source=source,
    )


MODELS: Final[Mapping[str, ModelFacts]] = MappingProxyType(
    {
        hub_id: _dense(hub_id, _DENSE_SHAPES[shape], context_limit, _source(hub_id, seen=seen))
        for hub_id, shape, context_limit, seen in _DENSE
    }
    | {model.hub_id: model for model in _MIXTURES}
)
"""Every model by its Hugging Face id."""


# --- Any other model ---------------------------------------------------------------------------

_MIXED_CACHE_TYPES: Final = frozenset(
    {
        "bamba", "cohere2", "deepseek_v32", "deepseek_v4", "falcon_h1", "falcon_mamba", "gemma2",
        "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "glm_moe_dsa",
        "gpt_oss", "granitemoehybrid", "jamba", "kimi_linear", "lfm2", "lfm2_moe", "llama4",
        "llama4_text", "mamba", "mamba2", "minimax", "nemotron_h", "plamo2", "qwen3_5",
        "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next", "recurrent_gemma", "rwkv",
        "zamba", "zamba2",
    }
)  # fmt: skip
"""Families that mix full attention with something else, whatever their keys say."""

_MIXED_CACHE_KEYS: Final = (
    "attention_chunk_size", "attn_layer_period", "attn_type_list", "compress_ratios",
    "full_attention_interval", "hybrid_override_pattern", "index_topk", "layers_block_type",
    "linear_attn_config", "linear_num_key_heads", "mamba_d_state", "num_kv_shared_layers",
    "sliding_window_pattern", "ssm_cfg",
)  # fmt: skip
"""Keys that only such families set."""

_QKV_BIAS_TYPES: Final = frozenset({"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl"})
"""Families whose query, key and value projections carry a bias without a key saying so."""

_QK_NORM_TYPES: Final = frozenset({"qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text"})
"""Families that normalize queries and keys per head."""

_WINDOW_OFF_BY_DEFAULT: Final = ("qwen2", "qwen3")
"""Families that read ``sliding_window`` only when ``use_sliding_window`` is true."""

_LARGEST: Final = 10_000_000
"""No width, count or length of a model comes near it."""

_MOST_LAYERS: Final = 1000
_SHORTEST_CONTEXT: Final = 256

_SIXTEEN_BITS: Final = 2.0
_DEFAULT_GROUP: Final = 128


REVISIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Qwen/Qwen2-7B-Instruct": "f2826a00ceef68f0f2b946d945ecc0477ce4450c",
        "Qwen/Qwen2.5-7B-Instruct": "a09a35458c702b33eeacc393d103063234e8bc28",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": "711ad2ea6aa40cfca18895e8aca02ab92df1a746",
        "meta-llama/Llama-3.1-8B-Instruct": "0e9e39f249a16976918f6564b8830bc894c89659",
    }
)
"""Hugging Face commits, as the snapshot folders of many public repositories name them."""


def facts_from_hf_config(hub_id: str, config: Mapping[str, object]) -> ModelFacts:
    """Read a model's facts from the contents of its Hugging Face ``config.json``.

    Handles Llama, Qwen2, Qwen3 and Mistral layouts, their mixtures of experts, and DeepSeek's
    latent attention; of a multimodal model it counts the language model only. Weights are counted
    from the shapes. Quantization spares the embedding and the output head, so they count two
    bytes each in the mean.

    Args:
        hub_id: The model's name, for the facts and for messages.
        config: The parsed file.

    Returns:
        The facts. ``gated`` is a guess from the owner's name: the file does not say.

    Raises:
        ValueError: The layout cannot be sized, or keys are missing or of the wrong kind; the
            message names all of them.
    """
    text = _language_model(config)
    refusal = _refusal(text, config)
    if refusal:
        message = f"{hub_id}: {refusal}"
        raise ValueError(message)
    keys = _Keys(text)
    facts = _facts(hub_id, keys)
    if keys.problems:
        listed = "; ".join(dict.fromkeys(keys.problems))
        message = f"{hub_id}: config.json cannot be used: {listed}."
        raise ValueError(message)
    return facts


def _language_model(config: Mapping[str, object]) -> Mapping[str, object]:
    """Lay a multimodal model's ``text_config`` over the keys around it."""
    nested = config.get("text_config")
    if not isinstance(nested, Mapping):
        return config
    around = {key: value for key, value in config.items() if key != "text_config"}
    return {**around, **{str(key): value for key, value in nested.items() if value is not None}}


def _refusal(text: Mapping[str, object], config: Mapping[str, object]) -> str | None:
    """Say why this layout cannot be sized, or None."""
    wrong = "so the KV cache does not grow by the same amount in every layer and cannot be sized"
    for model_type in (text.get("model_type"), config.get("model_type")):
        if isinstance(model_type, str) and model_type in _MIXED_CACHE_TYPES:
            return f"model_type {model_type!r} mixes kinds of attention or state, {wrong}."
    layer_types = text.get("layer_types")
    if isinstance(layer_types, list | tuple):
        other = sorted({str(kind) for kind in layer_types} - {"full_attention"})
        if other:
            return f"layer_types contains {', '.join(other)} besides full_attention, {wrong}."
    marks = [key for key in _MIXED_CACHE_KEYS if text.get(key) not in (None, 0, False, [], {})]
    if marks:
        return f"{', '.join(marks)} marks a hybrid or windowed model, {wrong}."
    if _window_is_on(text):
        return f"sliding-window attention over {text['sliding_window']} tokens is on, {wrong}."
    if text.get("is_encoder_decoder") is True:
        return "it is an encoder-decoder model; only decoder-only models are served here."
    return None


def _window_is_on(text: Mapping[str, object]) -> bool:
    if text.get("sliding_window") in (None, 0, False):
        return False
    switch = text.get("use_sliding_window")
    if isinstance(switch, bool):
        return switch
    return not str(text.get("model_type")).startswith(_WINDOW_OFF_BY_DEFAULT)


class _Keys:
    """Reads typed values and remembers everything that was wrong with them."""

    def __init__(self, config: Mapping[str, object]) -> None:
        self._config = config
        self.problems: list[str] = []

    def _wrong(self, key: str, needed: str) -> None:
        found = self._config.get(key)
        state = "is missing" if found is None else f"is {found!r}"
        self.problems.append(f"{key} {state}, needed is {needed}")

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self._config.get(key) is not None

    def whole(
        self, key: str, default: int | None = None, *, least: int = 1, most: int = _LARGEST
    ) -> int:
        """Read a whole number; without a default the key must be there."""
        value = self._config.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self._wrong(key, f"a whole number from {least} to {most:,}")
        return max(least, 1)

    def flag(self, key: str, *, default: bool) -> bool:
        """Read true or false."""
        value = self._config.get(key)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        self._wrong(key, "true or false")
        return default

    def word(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        """Read one of a few words."""
        value = self._config.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, str) and value in allowed:
            return value
        self._wrong(key, " or ".join(allowed))
        return allowed[0]

    def table(self, key: str) -> _Keys | None:
        """Read a nested object; what is wrong inside it counts here."""
        value = self._config.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self._wrong(key, "an object")
            return None
        inner = _Keys({str(name): entry for name, entry in value.items()})
        inner.problems = self.problems
        return inner

    def tables(self) -> list[_Keys]:
        """Read every entry of this object as an object."""
        found = [self.table(key) for key in self._config]
        return [entry for entry in found if entry is not None]

    def whole_numbers(self, key: str) -> frozenset[int]:
        """Read a list of whole numbers; empty where the key is missing."""
        value = self._config.get(key)
        if value is None:
            return frozenset()
        if isinstance(value, list | tuple) and all(isinstance(entry, int) for entry in value):
            return frozenset(value)
        self._wrong(key, "a list of whole numbers")
        return frozenset()

    def kind(self) -> str:
        """The model's family."""
        return str(self._config.get("model_type"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Weights of one transformer layer's MLP: how many there are, how many a token passes."""

    held: int
    active: int


def _facts(hub_id: str, keys: _Keys) -> ModelFacts:
    hidden = keys.whole("hidden_size")
    layers = keys.whole("num_hidden_layers", most=_MOST_LAYERS)
    heads = keys.whole("num_attention_heads")
    kv_heads = keys.whole("num_key_value_heads", heads)
    vocabulary = keys.whole("vocab_size")
    intermediate = keys.whole("intermediate_size")
    context = keys.whole("max_position_embeddings", least=_SHORTEST_CONTEXT)
    dtype = keys.word("dtype" if keys.has("dtype") else "torch_dtype", ("bfloat16", "float16"))
    keys.word("hidden_act", ("silu", "swish", "swiglu"), "silu")  # these MLPs have a gate
    if not keys.problems and heads % kv_heads:
        keys.problems.append(
            f"num_attention_heads is {heads}, needed is a multiple of num_key_value_heads"
            f" ({kv_heads})"
        )

    mla = None
    if keys.has("kv_lora_rank"):
        mla = MlaRanks(
            kv_lora_rank=keys.whole("kv_lora_rank"),
            qk_rope_head_dim=keys.whole("qk_rope_head_dim"),
        )
        head_dim = keys.whole("qk_nope_head_dim") + mla.qk_rope_head_dim
        attention = _latent_attention(keys, mla, hidden, heads)
    else:
        head_dim = _head_dim(keys, hidden, heads)
        attention = _attention(keys, hidden, heads * head_dim, kv_heads * head_dim)
        if keys.kind() in _QK_NORM_TYPES:
            attention += 2 * head_dim

    blocks = _blocks(keys, hidden, intermediate, layers)
    copies = 1 if keys.flag("tie_word_embeddings", default=False) else 2
    embeddings = copies * vocabulary * hidden
    shared = embeddings + layers * (attention + 2 * hidden) + hidden
    parameters = shared + sum(block.held for block in blocks)
    inner_bytes = _bytes_per_inner_weight(keys)
    weight_bytes = embeddings * _SIXTEEN_BITS + (parameters - embeddings) * inner_bytes
    return ModelFacts(
        hub_id=hub_id,
        parameters=parameters,
        active_parameters=shared + sum(block.active for block in blocks),
        layers=layers,
        hidden_size=hidden,
        intermediate_size=intermediate,
        attention_heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=vocabulary,
        context_limit=context,
        dtype=dtype,
        weight_bytes_per_parameter=weight_bytes / parameters,
        mla=mla,
        gated=hub_id.startswith(_GATED_OWNERS),
        source=f"local config.json of {hub_id}",
    )


def _head_dim(keys: _Keys, hidden: int, heads: int) -> int:
    if not keys.problems and not keys.has("head_dim") and hidden % heads:
        keys.problems.append(
            f"head_dim is missing, and hidden_size ({hidden}) is no multiple of"
            f" num_attention_heads ({heads}) to derive it from"
        )
    return keys.whole("head_dim", max(1, hidden // heads))


def _attention(keys: _Keys, hidden: int, query_width: int, kv_width: int) -> int:
    """Count the weights of one layer's attention."""
    weights = 2 * hidden * query_width + 2 * hidden * kv_width
    family_bias = keys.kind() in _QKV_BIAS_TYPES
    asked = keys.flag("attention_bias", default=False)
    if family_bias or asked:
        weights += query_width + 2 * kv_width
    if asked and keys.flag("attention_out_bias", default=not family_bias):
        weights += hidden
    return weights


def _latent_attention(keys: _Keys, mla: MlaRanks, hidden: int, heads: int) -> int:
    """Count the weights of one layer's latent attention, its two small norms included."""
    plain = keys.whole("qk_nope_head_dim")
    value = keys.whole("v_head_dim")
    queries = heads * (plain + mla.qk_rope_head_dim)
    rank = keys.whole("q_lora_rank", 0, least=0)
    query = rank * (hidden + 1 + queries) if rank else hidden * queries
    compress = hidden * (mla.kv_lora_rank + mla.qk_rope_head_dim) + mla.kv_lora_rank
    expand = mla.kv_lora_rank * heads * (plain + value)
    return query + compress + expand + heads * value * hidden


def _blocks(keys: _Keys, hidden: int, intermediate: int, layers: int) -> list[_Block]:
    """Describe the MLP of every layer."""
    dense_size = 3 * hidden * intermediate
    dense = _Block(held=dense_size, active=dense_size)
    names = ("num_experts", "n_routed_experts", "num_local_experts")
    name = next((name for name in names if keys.has(name)), None)
    experts = keys.whole(name, least=0) if name else 0
    if experts <= 1:
        return [dense] * layers

    width = keys.whole("moe_intermediate_size", intermediate)
    expert = 3 * hidden * width
    chosen = keys.whole("num_experts_per_tok")
    if not keys.problems and chosen > experts:
        keys.problems.append(
            f"num_experts_per_tok is {chosen}, needed is at most {name} ({experts})"
        )
    common = hidden * experts + keys.whole("n_shared_experts", 0, least=0) * expert
    if keys.kind() == "deepseek_v3":
        common += experts  # the correction bias of its router
    shared_width = keys.whole("shared_expert_intermediate_size", 0, least=0)
    if shared_width:
        common += 3 * hidden * shared_width + hidden  # an expert for all, and its gate
    mixture = _Block(held=common + experts * expert, active=common + chosen * expert)

    first = keys.whole("first_k_dense_replace", 0, least=0)
    step = keys.whole("decoder_sparse_step", 1)
    frequency = keys.whole("moe_layer_freq", 1)
    never = keys.whole_numbers("mlp_only_layers")
    return [
        mixture
        if index >= first
        and (index + 1) % step == 0
        and index % frequency == 0
        and index not in never
        else dense
        for index in range(layers)
    ]


def _bytes_per_inner_weight(keys: _Keys) -> float:
    """Find the bytes of one weight outside the embeddings, its share of the scales included."""
    quantization = keys.table("quantization_config")
    if quantization is None:
        return _SIXTEEN_BITS
    methods = ("fp8", "fbgemm_fp8", "awq", "gptq", "compressed-tensors")
    method = quantization.word("quant_method", methods)
    if method == "compressed-tensors":
        groups = quantization.table("config_groups")
        if groups is None:
            keys.problems.append("quantization_config.config_groups is missing")
            return _SIXTEEN_BITS
        weights = [group.table("weights") for group in groups.tables()]
        return max(
            (
                _packed_bytes(entry.whole("num_bits"), _group_size(entry, 0), zeros=False)
                for entry in weights
                if entry is not None
            ),
            default=_SIXTEEN_BITS,
        )
    if method in ("awq", "gptq"):
        bits = quantization.whole("bits", 4)
        return _packed_bytes(bits, _group_size(quantization, _DEFAULT_GROUP), zeros=True)
    return 1.0


def _group_size(keys: _Keys, default: int) -> int:
    """Read how many weights share a scale; 0 means a whole row does."""
    return max(0, keys.whole("group_size", default, least=-1))


def _packed_bytes(bits: int, group: int, *, zeros: bool) -> float:
    """Spread a group's 16-bit scale, and its zero point where it has one, over its weights."""
    extra = _SIXTEEN_BITS + (bits / 8 if zeros else 0.0)
    return bits / 8 + (extra / group if group else 0.0)
