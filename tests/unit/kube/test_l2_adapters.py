"""What our types of LMCache's adapters reject, although LMCache may take it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from kascade.kube.l2.adapters import FsNativeAdapter, HyperPodAdapter, adapter_json

EVICTION = {"eviction_policy": "LRU", "trigger_watermark": 0.9, "eviction_ratio": 0.1}
SERDE = {"type": "aesgcm", "master_key_path": "/k/key", "aes_bits": 256, "max_workers": 7}
FILES: dict[str, Any] = {
    "type": "fs_native",
    "base_path": "/mnt/kv",
    "relative_tmp_dir": ".tmp-$(POD_NAME)",
    "shared": True,
    "num_workers": 16,
    "max_capacity_gb": 313,
    "eviction": EVICTION,
    "serde": SERDE,
}
MANAGED: dict[str, Any] = {
    "type": "sagemaker-hyperpod",
    "url": "sagemaker-hyperpod://$(NODE_IP):9200",
    "bucket": "kv-qwen-0a1b2c3d",
    "shared_memory_name": "ai_toolkit_cache",
    "shared": True,
    "serde": SERDE,
}


@pytest.mark.parametrize(
    ("adapter", "given"), [(FsNativeAdapter, FILES), (HyperPodAdapter, MANAGED)]
)
def test_the_json_is_what_was_given(
    adapter: type[FsNativeAdapter | HyperPodAdapter], given: dict[str, Any]
) -> None:
    assert json.loads(adapter_json(adapter.model_validate(given))) == given
    plain = {key: value for key, value in given.items() if key != "serde"}
    assert json.loads(adapter_json(adapter.model_validate(plain))) == plain


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        pytest.param({"num_wokers": 4}, "num_wokers", id="a misspelt key"),
        pytest.param({"num_workers": "4"}, "num_workers", id="text for a number"),
        pytest.param({"num_workers": 0}, "num_workers", id="no thread"),
        pytest.param({"type": "fs"}, "type", id="another type"),
        pytest.param({"shared": False}, "shared", id="not shared"),
        pytest.param({"base_path": "mnt/kv"}, "base_path", id="a relative base path"),
        pytest.param({"base_path": "/mnt/../etc"}, "base_path", id="a base path upwards"),
        pytest.param({"base_path": "/"}, "base_path", id="the root"),
        pytest.param({"relative_tmp_dir": "x/$(POD_NAME)"}, "relative_tmp_dir", id="two levels"),
        pytest.param({"relative_tmp_dir": "/$(POD_NAME)"}, "relative_tmp_dir", id="absolute"),
        pytest.param({"relative_tmp_dir": ".."}, "relative_tmp_dir", id="upwards"),
        pytest.param({"relative_tmp_dir": ""}, "relative_tmp_dir", id="no folder"),
        pytest.param({"relative_tmp_dir": ".tmp"}, "relative_tmp_dir", id="one for all pods"),
        pytest.param({"eviction": None}, "eviction", id="a capacity without eviction"),
        pytest.param({"max_capacity_gb": 0}, "max_capacity_gb", id="no capacity"),
        pytest.param(
            {"eviction": EVICTION | {"trigger_watermark": 1.1}},
            "eviction.trigger_watermark",
            id="a share above one",
        ),
        pytest.param(
            {"eviction": EVICTION | {"eviction_policy": "noop"}},
            "eviction.eviction_policy",
            id="an eviction that evicts nothing",
        ),
        pytest.param({"serde": SERDE | {"aes_bits": 192}}, "serde.aes_bits", id="192 bits"),
        pytest.param({"serde": SERDE | {"type": "fp8"}}, "serde.type", id="another serde"),
        pytest.param(
            {"serde": SERDE | {"master_key_path": "key"}},
            "serde.master_key_path",
            id="a relative key",
        ),
    ],
)
def test_files_refuse(changes: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as caught:
        FsNativeAdapter.model_validate(FILES | changes)
    assert [".".join(map(str, error["loc"])) for error in caught.value.errors()] == [place]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        pytest.param({"eviction": EVICTION}, "eviction", id="an eviction block"),
        pytest.param({"shared_memory_name": "shared_memory"}, "shared_memory_name", id="the name"),
        pytest.param({"url": "sagemaker-hyperpod://10.0.0.1:9200"}, "url", id="one node for all"),
        pytest.param({"url": "http://$(NODE_IP):9200"}, "url", id="another scheme"),
        pytest.param({"bucket": "a/b"}, "bucket", id="a path for a bucket"),
        pytest.param({"lease_ttl": 5}, "lease_ttl", id="an unknown key"),
    ],
)
def test_managed_refuses(changes: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as caught:
        HyperPodAdapter.model_validate(MANAGED | changes)
    assert [".".join(map(str, error["loc"])) for error in caught.value.errors()] == [place]


@pytest.mark.parametrize(
    "left_out", ["base_path", "relative_tmp_dir", "max_capacity_gb", "eviction"]
)
def test_nothing_that_bounds_or_separates_has_a_default(left_out: str) -> None:
    with pytest.raises(ValidationError, match="Field required"):
        FsNativeAdapter.model_validate({k: v for k, v in FILES.items() if k != left_out})
