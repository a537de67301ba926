"""What is wrong with a whole file, a scalar or any block."""

import os
from collections.abc import Callable
from pathlib import Path

from tests.unit.config.builders import DIRECTORY, Row, both, group, model, tenancy, top

TIERED = {"tiered_storage_percentage": 20}


MISTAKES: dict[str, Row] = {
    "model larger than its GPU": (
        model(model="Qwen/Qwen2.5-72B-Instruct"),
        "models[0].model",
        "model-on-gpus",
    ),
    "unknown kind of tenancy": (tenancy("separate", "alice"), "models[0].tenancy", "not-allowed"),
    "tenancy without a kind": (
        model(tenancy={"tenants": ["alice"]}),
        "models[0].tenancy",
        "missing-kind",
    ),
    "tenants of a model that all share": (
        tenancy("shared", "alice"),
        "models[0].tenancy.tenants",
        "unknown-field",
    ),
    "tenants left out": (
        model(tenancy={"kind": "salted"}),
        "models[0].tenancy.tenants",
        "missing-field",
    ),
    "no tenant": (tenancy("isolated"), "models[0].tenancy.tenants", "too-few"),
    "tenant named twice": (
        tenancy("salted", "alice", "bob", "alice"),
        "models[0].tenancy.tenants[2]",
        "duplicate",
    ),
    "tenant that is no salt": (
        tenancy("salted", "a/b"),
        "models[0].tenancy.tenants[0]",
        "not-a-short-name",
    ),
    "tenant longer than a name": (
        tenancy("salted", "a" * 21),
        "models[0].tenancy.tenants[0]",
        "not-a-short-name",
    ),
    "model and tenant too long together": (
        both(model(name="a-model-of-20-letter"), tenancy("isolated", "tenant-of-13-x")),
        "models[0].tenancy.tenants[0]",
        "tenant-name-too-long",
    ),
    "tenant of Kascade's own": (
        tenancy("salted", "kascade-verifier"),
        "models[0].tenancy.tenants[0]",
        "reserved-tenant",
    ),
    "tenant that makes the name of another object": (
        tenancy("isolated", "router"),
        "models[0].tenancy.tenants[0]",
        "reserved-name",
    ),
    "tenant that makes the name of another model": (
        both(
            lambda c: c["models"].append(
                {"name": "qwen-alice", "model": "Qwen/Qwen2-7B-Instruct", "replicas": 1}
            ),
            model(replicas=1),
            group(count=2),
            tenancy("isolated", "alice"),
        ),
        "models[1].name",
        "same-object-name",
    ),
    "two tenants whose tenant gateways would have one name": (
        both(
            lambda c: c["models"].append(
                {
                    "name": "qwen-a",
                    "model": "Qwen/Qwen2-7B-Instruct",
                    "replicas": 1,
                    "tenancy": {"kind": "salted", "tenants": ["b"]},
                }
            ),
            model(replicas=1),
            tenancy("salted", "a-b"),
        ),
        "models[1].tenancy.tenants",
        "same-object-name",
    ),
    "more isolated replicas than GPUs": (
        tenancy("isolated", "alice", "bob"),
        "instance_groups[0].count",
        "gpus-of-a-group",
    ),
    "system nodes too small for the tenant gateways": (
        both(
            model(tenancy={"kind": "salted", "tenants": [f"t{i}" for i in range(20)]}),
            lambda c: c["models"].append(
                {
                    "name": "second",
                    "model": "Qwen/Qwen2-7B-Instruct",
                    "replicas": 2,
                    "tenancy": {"kind": "salted", "tenants": [f"t{i}" for i in range(19)]},
                }
            ),
            group(count=4),
            top(cache={"l2": {"kind": "none"}}),
        ),
        "kubernetes.system_group.count",
        "system-cpu",
        "78",
        "5.1",
    ),
    "isolated model larger than its GPU": (
        both(model(model="Qwen/Qwen2.5-72B-Instruct", replicas=1), tenancy("isolated", "a", "b")),
        "models[0].model",
        "model-on-gpus",
    ),
    "tensor parallel size above the node's GPUs": (
        model(tensor_parallel=4),
        "models[0].tensor_parallel",
        "gpus-of-one-instance",
    ),
    "tensor parallel size that divides no heads": (
        both(group(instance_type="ml.g6e.12xlarge"), model(tensor_parallel=3)),
        "models[0].tensor_parallel",
        "",
        "28",
    ),
    "context above the model's": (
        model(max_model_len=40_000),
        "models[0].max_model_len",
        "",
        "40000",
        "32768",
    ),
    "context above L0": (
        both(
            group(instance_type="ml.g6.4xlarge"),
            model(model="Qwen/Qwen2.5-7B-Instruct", max_model_len=32_768, max_num_seqs=4096),
        ),
        "models[0].max_model_len",
        "request-in-l0",
        "32768",
    ),
    "GPU memory for vLLM that leaves none to LMCache": (
        model(gpu_memory_utilization=0.995),
        "models[0].gpu_memory_utilization",
        "context-beside-vllm",
        "0.995",
        "0.92",
    ),
    "L1 above the host's RAM": (
        top(cache={"l1": {"capacity_gib": 100}}),
        "cache.l1.capacity_gib",
        "host-ram",
        "100",
        "93",
        "116",
    ),
    "no RAM left for any L1": (
        group(instance_type="ml.g5.xlarge"),
        "models[0].instance_group",
        "host-ram",
    ),
    "L2 above the NVMe": (
        top(cache={"l2": {"kind": "curvine", "capacity_gib_per_node": 600}}),
        "cache.l2.capacity_gib_per_node",
        "l2-of-nvme",
        "600",
        "558",
        "502",
        "90",
        "363",
    ),
    "reserve that takes all of L2": (
        top(cache={"l2": {"kind": "curvine", "capacity_gib_per_node": 40}}),
        "cache.l2.reserved_gib_per_node",
        "l2-reserve",
        "50",
        "40",
    ),
    "pool too small for its engines": (
        top(
            cache={
                "l2": {"kind": "curvine", "capacity_gib_per_node": 11, "reserved_gib_per_node": 10}
            },
            instance_groups=[{"name": "gpu", "instance_type": "ml.g6.12xlarge", "count": 1}],
        ),
        "cache.l2",
        "l2-of-an-engine",
        "11",
        "10",
    ),
    "bucket with its scheme": (
        model(weights={"kind": "s3", "bucket": "s3://models", "prefix": "qwen/1"}),
        "models[0].weights.bucket",
        "bucket-name",
    ),
    "bucket that looks like an address": (
        model(weights={"kind": "s3", "bucket": "10.0.0.1", "prefix": "qwen/1"}),
        "models[0].weights.bucket",
        "bucket-name",
    ),
    "directory bucket": (
        model(weights={"kind": "s3", "bucket": "models--usw2-az1--x-s3", "prefix": "qwen/1"}),
        "models[0].weights.bucket",
        "bucket-kind",
    ),
    "prefix with a slash at the end": (
        model(weights={"kind": "s3", "bucket": "models", "prefix": "qwen/1/"}),
        "models[0].weights.prefix",
        "folders",
    ),
    "whole bucket": (
        model(weights={"kind": "s3", "bucket": "models", "prefix": ""}),
        "models[0].weights.prefix",
        "folders",
    ),
    "bucket without prefix": (
        model(weights={"kind": "s3", "bucket": "models"}),
        "models[0].weights.prefix",
        "missing-field",
    ),
    "path out of the claim": (
        model(weights={"kind": "claim", "name": "models", "path": "../other"}),
        "models[0].weights.path",
        "folders",
    ),
    "claim that cannot be one": (
        model(weights={"kind": "claim", "name": "My Models"}),
        "models[0].weights.name",
        "wrong-format",
    ),
    "key that is no KMS key": (
        model(
            weights={"kind": "s3", "bucket": "models", "prefix": "a", "kms_key_arn": "alias/models"}
        ),
        "models[0].weights.kms_key_arn",
        "wrong-format",
    ),
    "weights from nowhere": (model(weights={"kind": "ftp"}), "models[0].weights", "not-allowed"),
    "token that nothing reads": (
        model(
            weights={"kind": "claim", "name": "models", "path": "a"},
            huggingface_token_secret="hf",  # noqa: S106 - a name
        ),
        "models[0].huggingface_token_secret",
        "unread",
    ),
    "commit that nothing reads": (
        model(weights={"kind": "s3", "bucket": "models", "prefix": "a"}, revision="a" * 40),
        "models[0].revision",
        "unread",
    ),
    "unknown model whose files lie in a bucket": (
        model(model="me/mine", weights={"kind": "s3", "bucket": "models", "prefix": "a"}),
        "models[0].model",
        "unknown-model",
    ),
    "chunk that is no multiple of the block": (
        top(cache={"chunk_size": 250}),
        "cache.chunk_size",
        "chunk-of-blocks",
    ),
    "more replicas than GPUs": (model(replicas=3), "instance_groups[0].count", "gpus-of-a-group"),
    "instance type without prefix": (
        group(instance_type="g6e.4xlarge"),
        "instance_groups[0].instance_type",
        "unknown-instance-type",
    ),
    "tiered storage below HyperPod's least": (
        top(hyperpod={"tiered_storage_percentage": 19}),
        "hyperpod.tiered_storage_percentage",
        "tiered-storage-percentage",
    ),
    "two groups of one name": (
        both(
            lambda c: c["instance_groups"].append(dict(c["instance_groups"][0])),
            model(instance_group="gpu"),
        ),
        "instance_groups[1].name",
        "duplicate",
    ),
    "two models of one name": (
        both(model(replicas=1), lambda c: c["models"].append(dict(c["models"][0]))),
        "models[1].name",
        "duplicate",
    ),
    "zone named twice": (top(zones=["us-west-2a", "us-west-2a"]), "zones[1]", "duplicate"),
    "zone of another region": (top(zones=["us-west-2a", "us-east-1b"]), "zones[1]", "unknown-zone"),
    "group in a zone that is not deployed": (
        group(zone="us-west-2c"),
        "instance_groups[0].zone",
        "zone-of-a-group",
    ),
    "unknown region": (top(region="us-west-9"), "region", "unknown-region"),
    "one zone only": (top(zones=["us-west-2a"]), "zones", "too-few"),
    "unknown field": (top(modls=[]), "modls", "unknown-field"),
    "unknown field deep inside": (
        top(cache={"l2": {"kind": "curvine", "replicas": 2}}),
        "cache.l2.replicas",
        "unknown-field",
    ),
    "wrong type": (group(count="two"), "instance_groups[0].count", "wrong-type"),
    "number as text": (group(count="2"), "instance_groups[0].count", "wrong-type"),
    "switch as a number": (group(count=True), "instance_groups[0].count", "wrong-type"),
    "version without quotes": (
        top(kubernetes={"version": 1.34}),
        "kubernetes.version",
        "wrong-type",
    ),
    "unsupported Kubernetes version": (
        top(kubernetes={"version": "1.29"}),
        "kubernetes.version",
        "kubernetes-version",
    ),
    "node image of another version": (
        top(kubernetes={"system_group": {"release_version": "1.34.9-20261120"}}),
        "kubernetes.system_group.release_version",
        "node-image-version",
    ),
    "no release of a node image": (
        top(kubernetes={"system_group": {"release_version": "newest"}}),
        "kubernetes.system_group.release_version",
        "wrong-format",
    ),
    "required field left out": (
        lambda c: c["models"][0].pop("replicas"),
        "models[0].replicas",
        "missing-field",
    ),
    "list written as text": (top(zones="us-west-2a"), "zones", "wrong-type"),
    "block left empty": (top(kubernetes=None), "kubernetes", "wrong-type"),
    "value out of a choice": (top(router={"strategy": "random"}), "router.strategy", "not-allowed"),
    "strategy that cannot be served": (
        top(router={"strategy": "kvaware"}),
        "router.strategy",
        "router-strategy",
    ),
    "settings of a mode that the model is not in": (
        model(operator={"endpoint_name": "chat"}),
        "models[0].operator",
        "unread",
    ),
    "operator without a GPU to surge to": (
        model(mode="operator"),
        "models[0].mode",
        "operator-surge",
    ),
    "operator in a region without it": (
        both(
            top(region="ca-central-1", zones=["ca-central-1a", "ca-central-1b"]),
            top(observability={"enabled": False}),
            model(mode="operator", replicas=1),
        ),
        "models[0].mode",
        "operator-region",
    ),
    "names that do not fit the operator's Service": (
        both(top(name="a" * 20), model(name="b" * 27, mode="operator", replicas=1)),
        "models[0].name",
        "operator-name-too-long",
    ),
    "folder of a claim, which the operator cannot mount": (
        model(
            mode="operator",
            replicas=1,
            weights={"kind": "claim", "name": "models", "path": "qwen2-7b/f2826a0"},
        ),
        "models[0].weights.path",
        "operator-claim-path",
    ),
    "certificate without its domain": (
        model(
            mode="operator",
            replicas=1,
            operator={"certificate_arn": "arn:aws:acm:us-west-2:111122223333:certificate/0a1b"},
        ),
        "models[0].operator.certificate_domain",
        "operator-certificate-pair",
    ),
    "place for a certificate that nobody makes": (
        model(
            mode="operator",
            replicas=1,
            operator={
                "certificate_arn": "arn:aws:acm:us-west-2:111122223333:certificate/0a1b",
                "certificate_domain": "m.example.com",
                "certificate_output": "s3://bucket/place",
            },
        ),
        "models[0].operator.certificate_output",
        "operator-certificate-output",
    ),
    "endpoint name with an underscore": (
        model(mode="operator", replicas=1, operator={"endpoint_name": "my_chat"}),
        "models[0].operator.endpoint_name",
        "wrong-format",
    ),
    "chart repository without https": (
        top(kubernetes={"kyverno": {"chart_repository": "http://charts.example.com"}}),
        "kubernetes.kyverno.chart_repository",
        "wrong-format",
    ),
    "unknown kind of L2": (top(cache={"l2": {"kind": "redis"}}), "cache.l2", "not-allowed"),
    "L2 switched off by nothing": (top(cache={"l2": None}), "cache.l2", "wrong-type"),
    "L2 without a kind": (top(cache={"l2": {"masters": 3}}), "cache.l2", "missing-kind"),
    "managed L2 in RAM that nobody lends": (
        top(cache={"l2": {"kind": "managed"}}),
        "hyperpod.tiered_storage_percentage",
        "managed-l2-percentage",
    ),
    "directory without a claim": (
        top(cache={"l2": {"kind": "directory", "capacity_gib": 100}}),
        "cache.l2.claim",
        "missing-field",
    ),
    "directory without a bound": (
        top(cache={"l2": {"kind": "directory", "claim": "kv"}}),
        "cache.l2.capacity_gib",
        "missing-field",
    ),
    "directory that climbs out of its claim": (
        top(cache={"l2": DIRECTORY | {"path": "../kv"}}),
        "cache.l2.path",
        "wrong-format",
    ),
    "directory with a name that is no claim's": (
        top(cache={"l2": DIRECTORY | {"claim": "My_Claim"}}),
        "cache.l2.claim",
        "wrong-format",
    ),
    "claim of L2 that holds the weights, too": (
        both(
            top(cache={"l2": DIRECTORY}),
            model(weights={"kind": "claim", "name": DIRECTORY["claim"], "path": "qwen"}),
        ),
        "models[0].weights.name",
        "claim-of-l2",
    ),
    "key of another region": (
        model(
            weights={
                "kind": "s3",
                "bucket": "example-models",
                "prefix": "qwen",
                "kms_key_arn": "arn:aws:kms:eu-north-1:111122223333:key/1234",
            }
        ),
        "models[0].weights.kms_key_arn",
        "region-of-an-arn",
    ),
    "token in the Secret of the cache's key": (
        model(huggingface_token_secret="kv-cache-key"),  # noqa: S106 - a name
        "models[0].huggingface_token_secret",
        "token-secret-name",
    ),
    "model id with two hyphens": (model(model="org/my--model"), "models[0].model", "wrong-format"),
    "model called as the account of all pods": (
        model(name="default"),
        "models[0].name",
        "reserved-name",
    ),
    "name of the namespace of Mountpoint's pods": (top(name="mount-s3"), "name", "reserved-name"),
    "Kyverno that nobody needs": (
        top(kubernetes={"kyverno": {"image_registry": "registry.example.com"}}),
        "kubernetes.kyverno",
        "unread",
    ),
    "tenants whose blocks lie unencrypted in a host's memory": (
        both(
            top(
                cache={"l2": {"kind": "managed", "encryption": "none"}},
                hyperpod={"tiered_storage_percentage": 30},
            ),
            model(tenancy={"kind": "salted", "tenants": ["alice"]}),
        ),
        "cache.l2.encryption",
        "tenants-unencrypted",
    ),
    "file system that nobody knows": (
        top(cache={"l2": DIRECTORY | {"file_system": "ext4"}}),
        "cache.l2.file_system",
        "not-allowed",
    ),
    "directory too small for its engines": (
        both(
            top(cache={"l2": DIRECTORY | {"capacity_gib": 10}}),
            group(instance_type="ml.g6.12xlarge", count=4),
        ),
        "cache.l2",
        "l2-of-an-engine",
        "10",
        "16",
    ),
    "field of another kind of L2": (
        top(cache={"l2": {"kind": "managed", "masters": 3}}, hyperpod=TIERED),
        "cache.l2.masters",
        "unknown-field",
    ),
    "count below its least": (model(replicas=0), "models[0].replicas", "out-of-range"),
    "name that cannot name resources": (top(name="My_Fleet"), "name", "not-a-short-name"),
    "name too long for the region's bucket": (
        top(
            name="a-deployment-abcdef",
            region="ap-northeast-1",
            zones=["ap-northeast-1a", "ap-northeast-1c"],
        ),
        "name",
        "name-too-long",
    ),
    "more masters than system nodes": (
        top(
            cache={"l2": {"kind": "curvine", "masters": 3}},
            kubernetes={"system_group": {"instance_type": "m5.2xlarge"}},
        ),
        "cache.l2.masters",
        "masters-on-system-nodes",
    ),
    "system nodes too small for the routers": (
        lambda c: c.update(
            router={"strategy": "session"},
            cache={"l2": {"kind": "none"}},
            instance_groups=[{"name": "gpu", "instance_type": "ml.g6e.4xlarge", "count": 20}],
            models=[
                {"name": f"q{i}", "model": "Qwen/Qwen2-7B-Instruct", "replicas": 2}
                for i in range(10)
            ],
        ),
        "kubernetes.system_group.count",
        "system-cpu",
        "20",
        "5.7",
    ),
    "revision that is no commit": (model(revision="main"), "models[0].revision", "wrong-format"),
    "more requests than tokens in a pass": (
        model(max_num_seqs=4096, max_batched_tokens=256),
        "models[0].max_batched_tokens",
        "requests-of-a-pass",
        "256",
        "4096",
    ),
    "chunk larger than a Curvine block": (
        top(cache={"chunk_size": 4096}),
        "models[0].model",
        "chunk-of-a-block",
        "128",
        "2336",
    ),
    "chunk that a Curvine client keeps until the end": (
        top(cache={"chunk_size": 16}),
        "models[0].model",
        "chunk-of-a-buffer",
        "16",
        "896.0",
        "32",
    ),
    "requests shorter than a chunk": (
        both(model(max_model_len=256), top(cache={"chunk_size": 512})),
        "models[0].max_model_len",
        "request-of-a-chunk",
        "256",
        "512",
    ),
    "L1 smaller than a chunk": (
        top(
            cache={"chunk_size": 8192, "l1": {"capacity_gib": 1}, "l2": {"kind": "none"}},
            models=[
                {
                    "name": "r1",
                    "model": "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
                    "replicas": 1,
                    "tensor_parallel": 4,
                }
            ],
            instance_groups=[{"name": "gpu", "instance_type": "ml.g6e.12xlarge", "count": 1}],
        ),
        "cache.l1",
        "chunk-in-l1",
        "8192",
    ),
    "node that cannot hold its daemons": (
        both(
            top(hyperpod={"tiered_storage_percentage": 80}),
            lambda c: c["instance_groups"].append(
                {"name": "idle", "instance_type": "ml.g6.xlarge", "count": 2}
            ),
            model(instance_group="gpu", replicas=1),
            group(instance_type="ml.g6e.48xlarge", count=1),
        ),
        "instance_groups[1].instance_type",
        "daemons",
        "14,162",
    ),
    "VPC too small for its pods": (
        both(top(network={"vpc_cidr": "10.0.0.0/20"}), group(count=100)),
        "network.vpc_cidr",
        "",
        "1,014",
    ),
    "home zones too small for what has no zone": (
        both(
            top(
                network={"vpc_cidr": "10.0.0.0/20"},
                zones=["us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d"],
            ),
            group(count=20),
        ),
        "network.vpc_cidr",
        "",
        "1,014",
        "1,112",
    ),
    "model named like a router": (model(name="qwen-router"), "models[0].name", "reserved-name"),
    "deployment named like a system namespace": (top(name="kube-system"), "name", "reserved-name"),
    "label of Kubernetes' own": (
        group(labels={"node.kubernetes.io/instance-type": "mine"}),
        "instance_groups[0].labels.node.kubernetes.io/instance-type",
        "reserved-key",
    ),
    "taint named twice": (
        group(taints=[{"key": "a"}, {"key": "a"}]),
        "instance_groups[0].taints[1]",
        "duplicate",
    ),
    "role named twice": (
        top(kubernetes={"admin_role_arns": ["arn:aws:iam::111122223333:role/Admin"] * 2}),
        "kubernetes.admin_role_arns[1]",
        "duplicate",
    ),
    "tag of AWS's own": (top(tags={"aws:team": "x"}), "tags.aws:team", "wrong-format"),
    "price without end": (
        group(usd_per_hour=float("inf")),
        "instance_groups[0].usd_per_hour",
        "wrong-type",
    ),
    "switch instead of a number": (
        top(cache={"l2": {"kind": "curvine", "masters": True}}),
        "cache.l2.masters",
        "switch-for-a-number",
    ),
    "path that climbs": (
        top(hyperpod={"nvme_mount": "/opt/../etc"}),
        "hyperpod.nvme_mount",
        "wrong-format",
    ),
    "Grafana version in words": (
        top(observability={"grafana": {"version": "latest"}}),
        "observability.grafana.version",
        "wrong-format",
    ),
    "digits of another script": (top(account="\u0661" * 12), "account", "wrong-format"),
    "unknown model": (model(model="Qwen/Qwen2-7B-Instuct"), "models[0].model", "unknown-model"),
    "gated model without a token": (
        model(model="meta-llama/Llama-3.1-8B-Instruct"),
        "models[0].huggingface_token_secret",
        "gated-model",
    ),
    "model's file that is not there": (
        model(model="me/mine", config_json="nowhere.json"),
        "models[0].config_json",
        "config-json",
    ),
    "group that does not exist": (
        model(instance_group="gpus"),
        "models[0].instance_group",
        "unknown-group",
    ),
    "group left open among several": (
        lambda c: c["instance_groups"].append({**c["instance_groups"][0], "name": "other"}),
        "models[0].instance_group",
        "group-open",
    ),
    "public VPC address space": (
        top(network={"vpc_cidr": "8.8.0.0/16"}),
        "network.vpc_cidr",
        "not-private",
    ),
    "VPC too small": (top(network={"vpc_cidr": "10.0.0.0/24"}), "network.vpc_cidr", "network-size"),
    "host bits in a network": (
        top(kubernetes={"public_access_cidrs": ["203.0.113.7/24"]}),
        "kubernetes.public_access_cidrs[0]",
        "host-bits",
    ),
    "region without a health agent": (
        both(top(region="ap-northeast-2", zones=["ap-northeast-2a", "ap-northeast-2b"])),
        "images.health_agent",
        "",
    ),
    "more system nodes than may be": (
        top(kubernetes={"system_group": {"count": 5, "max_count": 4}}),
        "kubernetes.system_group.max_count",
        "system-max-count",
    ),
}


WHOLE_FILES: dict[str, tuple[str, str, str]] = {
    "empty": ("", "(whole file)", "unreadable-file"),
    "only a comment": ("# nothing\n", "(whole file)", "unreadable-file"),
    "a list": ("- a\n- b\n", "(whole file)", "unreadable-file"),
    "a single value": ("hello", "(whole file)", "unreadable-file"),
    "broken syntax": ("name: [a\nregion: b", "(whole file)", "unreadable-file"),
    "a tab": ("name: a\n\tregion: b", "(whole file)", "unreadable-file"),
    "two documents": ("name: a\n---\nname: b\n", "(whole file)", "unreadable-file"),
    "an alias to itself": ("a: &a [*a]\n", "(whole file)", "unreadable-file"),
    "a foreign tag": ("name: !!python/object:os.system x\n", "name", "unreadable-value"),
    "a list as a field name": ("? [a]\n: b\n", "(whole file)", "unreadable-file"),
}


SCALARS: dict[str, tuple[str, str, str]] = {
    "octal": ("count: 010", "instance_groups[0].count", "not-decimal"),
    "sexagesimal": ("count: 1:30", "instance_groups[0].count", "not-decimal"),
    "control character": (r'count: "\x1b[2J"', "instance_groups[0].count", "control-character"),
    "lone surrogate": (r'count: "\ud800"', "instance_groups[0].count", "control-character"),
    "far too long": ("count: " + "9" * 4000, "instance_groups[0].count", "value-too-long"),
    "broken number": ("count: !!int ''", "instance_groups[0].count", "not-decimal"),
    "broken date": ("count: 2024-13-45", "instance_groups[0].count", "wrong-type"),
    "merge of nothing": ("labels: {<<: 3}", "instance_groups[0].labels", "unreadable-merge"),
    "foreign tag on a block": ("labels: !foo {a: b}", "instance_groups[0].labels", "unknown-tag"),
}


def bomb(path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    path.write_text("\n".join(lines))


UNREADABLE: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no file": (Path.exists, "(whole file)", "unreadable-file"),
    "a folder": (Path.mkdir, "(whole file)", "unreadable-file"),
    "a pipe that nobody writes to": (os.mkfifo, "(whole file)", "unreadable-file"),
    "another encoding": (
        lambda path: path.write_bytes("name: caf\xe9".encode("latin-1")),
        "(whole file)",
        "unreadable-file",
    ),
    "an alias bomb": (bomb, "(whole file)", "unreadable-file"),
}
