"""Writes the folder of a model without weights: its shape, and a tokenizer of one token a byte.

Runs in the engine environment, which has the `tokenizers` package:

    .venv-engine/bin/python -m tools.local.model FOLDER < config.json
"""

import json
import sys
from pathlib import Path
from typing import Any

_SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]
_CHAT = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def write_model(folder: Path, shape: dict[str, Any]) -> None:
    """Write a folder that vLLM takes for a Llama of that shape.

    Args:
        folder: Where to; it is made.
        shape: Fields of a Hugging Face config.json, at least the sizes.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*_SPECIALS, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=_SPECIALS[3]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(_SPECIALS)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))

    names = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), _SPECIALS, strict=True))
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    llama = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "initializer_range": 0.02,
    }
    files: dict[str, dict[str, Any]] = {
        "tokenizer_config.json": names
        | {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": shape["max_position_embeddings"],
            "chat_template": _CHAT,
        },
        "generation_config.json": {"bos_token_id": 1, "eos_token_id": 2},
        "config.json": llama | ids | shape,
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    write_model(Path(sys.argv[1]), json.load(sys.stdin))
