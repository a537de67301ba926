"""Every mistake that is refused at synth, with the sentence a person gets to read."""

import dataclasses
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import InvalidConfigError, plan_file
from kascade.catalog.images import IMAGES
from kascade.catalog.instances import INSTANCES
from kascade.sizing import advice, draft

Edit = Callable[[dict[str, Any]], object]


def base() -> dict[str, Any]:
    return {
        "name": "demo",
        "region": "us-west-2",
        "zones": ["us-west-2a", "us-west-2b"],
        "instance_groups": [{"name": "gpu", "instance_type": "ml.g6e.4xlarge", "count": 2}],
        "models": [{"name": "qwen", "model": "Qwen/Qwen2-7B-Instruct", "replicas": 2}],
    }


def write(folder: Path, content: object) -> Path:
    path = folder / "deployment.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def problems_of(path: Path) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        plan_file(path)
    return [str(problem) for problem in caught.value.problems]


def assert_one_sentence(file: Path, path: str, words: str) -> None:
    """One mistake of a configuration is one sentence, at its path and in these words."""
    (problem,) = problems_of(file)
    where, _, text = problem.partition(f"{path}: ")
    assert re.fullmatch(r"(line \d+: )?", where), problem
    assert re.search(words, text), problem


def group(index: int = 0, **changes: object) -> Edit:
    return lambda c: c["instance_groups"][index].update(changes)


def model(index: int = 0, **changes: object) -> Edit:
    return lambda c: c["models"][index].update(changes)


def top(**changes: object) -> Edit:
    return lambda c: c.update(changes)


def tenancy(kind: str, *tenants: object, index: int = 0) -> Edit:
    return model(index, tenancy={"kind": kind, "tenants": list(tenants)})


def both(*edits: Edit) -> Edit:
    def apply(config: dict[str, Any]) -> None:
        for edit in edits:
            edit(config)

    return apply


DIRECTORY: dict[str, Any] = {"kind": "directory", "claim": "kv", "capacity_gib": 100}
TIERED = {"tiered_storage_percentage": 20}

MISTAKES: dict[str, tuple[Edit, str, str]] = {
    "model larger than its GPU": (
        model(model="Qwen/Qwen2.5-72B-Instruct"),
        "models[0].model",
        r"does not fit 1 x L40S: 135\.\d GiB .* Set .*ml\.g7e\.12xlarge and set .*parallel to 2$",
    ),
    "unknown kind of tenancy": (
        tenancy("separate", "alice"),
        "models[0].tenancy",
        r"got kind 'separate'; allowed: 'shared', 'salted', 'isolated'",
    ),
    "tenancy without a kind": (
        model(tenancy={"tenants": ["alice"]}),
        "models[0].tenancy",
        r"must begin with `kind:`; allowed: 'shared', 'salted', 'isolated'",
    ),
    "tenants of a model that all share": (
        tenancy("shared", "alice"),
        "models[0].tenancy.tenants",
        r"there is no such field here\. Allowed: kind",
    ),
    "tenants left out": (
        model(tenancy={"kind": "salted"}),
        "models[0].tenancy.tenants",
        r"this field is required: Short names, unique",
    ),
    "no tenant": (
        tenancy("isolated"),
        "models[0].tenancy.tenants",
        r"got 0; at least 1 are needed",
    ),
    "tenant named twice": (
        tenancy("salted", "alice", "bob", "alice"),
        "models[0].tenancy.tenants[2]",
        r"the tenant 'alice' stands twice \(also at models\[0\]\.tenancy\.tenants\[0\]\)",
    ),
    "tenant that is no salt": (
        tenancy("salted", "a/b"),
        "models[0].tenancy.tenants[0]",
        r"'a/b' cannot name cloud resources; use lower-case letters, digits and inner hyphens",
    ),
    "tenant longer than a name": (
        tenancy("salted", "a" * 21),
        "models[0].tenancy.tenants[0]",
        r"cannot name cloud resources; .* at most 20 characters",
    ),
    "model and tenant too long together": (
        both(model(name="a-model-of-20-letter"), tenancy("isolated", "tenant-of-13-x")),
        "models[0].tenancy.tenants[0]",
        r"'a-model-of-20-letter-tenant-of-13-x' has 35 characters; .* use at most 32",
    ),
    "tenant of Kascade's own": (
        tenancy("salted", "kascade-proof"),
        "models[0].tenancy.tenants[0]",
        r"'kascade-proof' begins with kascade-, which is kept for tenants of Kascade's own",
    ),
    "tenant that makes the name of another object": (
        tenancy("isolated", "router"),
        "models[0].tenancy.tenants[0]",
        r"'qwen-router', of model and tenant, would collide with objects of another model",
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
        r"'qwen-alice' would name objects of both models\[0\] and models\[1\]; rename one",
    ),
    "two tenants whose doors would have one name": (
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
        r"'qwen-a-b' would name objects of both models\[0\] and models\[1\]",
    ),
    "more isolated replicas than GPUs": (
        tenancy("isolated", "alice", "bob"),
        "instance_groups[0].count",
        r"2 x qwen-alice \(TP 1\), 2 x qwen-bob \(TP 1\) need 4 GPUs, .* Set .*count to 4",
    ),
    "system nodes too small for the doors": (
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
        r"got 2; 2 routers, 78 doors, 0 Curvine masters .* ask for 5\.1 CPUs.* Set .*count to 3",
    ),
    "isolated model larger than its GPU": (
        both(model(model="Qwen/Qwen2.5-72B-Instruct", replicas=1), tenancy("isolated", "a", "b")),
        "models[0].model",
        r"does not fit 1 x L40S",
    ),
    "tensor parallel size above the node's GPUs": (
        model(tensor_parallel=4),
        "models[0].tensor_parallel",
        r"got 4, but ml\.g6e\.4xlarge has 1 GPU; .*Set .*parallel to 1",
    ),
    "tensor parallel size that divides no heads": (
        both(group(instance_type="ml.g6e.12xlarge"), model(tensor_parallel=3)),
        "models[0].tensor_parallel",
        r"got 3, which does not divide the 28 attention heads.*allowed on this type: 1, 2, 4",
    ),
    "context above the model's": (
        model(max_model_len=40_000),
        "models[0].max_model_len",
        r"got 40000; Qwen/Qwen2-7B-Instruct takes at most 32768 tokens",
    ),
    "context above L0": (
        both(
            group(instance_type="ml.g6.4xlarge"),
            model(model="Qwen/Qwen2.5-7B-Instruct", max_model_len=32_768, max_num_seqs=4096),
        ),
        "models[0].max_model_len",
        r"got 32768, but L0 holds \d+ tokens .* Set .*len to \d+, or set .*dtype to fp8",
    ),
    "GPU memory for vLLM that leaves none to LMCache": (
        model(gpu_memory_utilization=0.995),
        "models[0].gpu_memory_utilization",
        r"got 0\.995, which leaves .* LMCache server's own context .* Set .*utilization to 0\.92",
    ),
    "L1 above the host's RAM": (
        top(cache={"l1": {"capacity_gib": 100}}),
        "cache.l1.capacity_gib",
        r"overcommitted for qwen: 100 GiB .* but 93 GiB are left \(116 GiB allocatable - .*engine",
    ),
    "no RAM left for any L1": (
        group(instance_type="ml.g5.xlarge"),
        "models[0].instance_group",
        r"RAM of ml\.g5\.xlarge is overcommitted .* L1 needs at least 1 GiB, but 0 GiB are left",
    ),
    "L2 above the NVMe": (
        top(cache={"l2": {"kind": "curvine", "capacity_gib_per_node": 600}}),
        "cache.l2.capacity_gib_per_node",
        r"got 600, but ml\.g6e\.4xlarge has 558 .* at most 502 \(90 %\) .* better 363.* to 363$",
    ),
    "reserve that takes all of L2": (
        top(cache={"l2": {"kind": "curvine", "capacity_gib_per_node": 40}}),
        "cache.l2.reserved_gib_per_node",
        r"got 50, which takes all of the 40 GiB",
    ),
    "pool too small for its engines": (
        top(
            cache={
                "l2": {
                    "kind": "curvine",
                    "capacity_gib_per_node": 11,
                    "reserved_gib_per_node": 10,
                }
            },
            instance_groups=[{"name": "gpu", "instance_type": "ml.g6.12xlarge", "count": 1}],
        ),
        "cache.l2",
        r"no room for qwen: \(11 - 10 reserved\) GiB of a node's NVMe x 1 of 4 GPUs",
    ),
    "bucket with its scheme": (
        model(weights={"kind": "s3", "bucket": "s3://models", "prefix": "qwen/1"}),
        "models[0].weights.bucket",
        r"'s3://models' cannot be the name of a bucket; .* without s3:// before it",
    ),
    "bucket that looks like an address": (
        model(weights={"kind": "s3", "bucket": "10.0.0.1", "prefix": "qwen/1"}),
        "models[0].weights.bucket",
        r"'10\.0\.0\.1' cannot be the name of a bucket",
    ),
    "directory bucket": (
        model(weights={"kind": "s3", "bucket": "models--usw2-az1--x-s3", "prefix": "qwen/1"}),
        "models[0].weights.bucket",
        r"names a directory bucket or an access point.*general purpose bucket",
    ),
    "prefix with a slash at the end": (
        model(weights={"kind": "s3", "bucket": "models", "prefix": "qwen/1/"}),
        "models[0].weights.prefix",
        r"'qwen/1/' is no path of folders such as .*none at the beginning or end",
    ),
    "whole bucket": (
        model(weights={"kind": "s3", "bucket": "models", "prefix": ""}),
        "models[0].weights.prefix",
        r"'' is no path of folders",
    ),
    "bucket without prefix": (
        model(weights={"kind": "s3", "bucket": "models"}),
        "models[0].weights.prefix",
        r"missing|required",
    ),
    "path out of the claim": (
        model(weights={"kind": "claim", "name": "models", "path": "../other"}),
        "models[0].weights.path",
        r"'\.\./other' is no path of folders .*no folder that begins with a dot",
    ),
    "claim that cannot be one": (
        model(weights={"kind": "claim", "name": "My Models"}),
        "models[0].weights.name",
        r"'My Models' is not the name of a PersistentVolumeClaim",
    ),
    "key that is no KMS key": (
        model(
            weights={"kind": "s3", "bucket": "models", "prefix": "a", "kms_key_arn": "alias/models"}
        ),
        "models[0].weights.kms_key_arn",
        r"'alias/models' is not the ARN of a KMS key",
    ),
    "weights from nowhere": (
        model(weights={"kind": "ftp"}),
        "models[0].weights",
        r"hub.*s3.*claim",
    ),
    "token that nothing reads": (
        model(
            weights={"kind": "claim", "name": "models", "path": "a"},
            huggingface_token_secret="hf",  # noqa: S106 - a name
        ),
        "models[0].huggingface_token_secret",
        r"nothing is downloaded with weights of kind claim; leave it out",
    ),
    "commit that nothing reads": (
        model(weights={"kind": "s3", "bucket": "models", "prefix": "a"}, revision="a" * 40),
        "models[0].revision",
        r"nothing reads it with weights of kind s3; .*name the revision in weights\.prefix",
    ),
    "unknown model whose files lie in a bucket": (
        model(model="me/mine", weights={"kind": "s3", "bucket": "models", "prefix": "a"}),
        "models[0].model",
        r"'me/mine' is not in the catalog.*give its Hugging Face config\.json in `config_json`",
    ),
    "chunk that is no multiple of the block": (
        top(cache={"chunk_size": 250}),
        "cache.chunk_size",
        r"got 250; it must be a multiple of the block size \(16\)",
    ),
    "more replicas than GPUs": (
        model(replicas=3),
        "instance_groups[0].count",
        r"3 x qwen \(TP 1\) need 3 GPUs, but 2 x ml\.g6e\.4xlarge have 2\. Set .*count to 3",
    ),
    "instance type without prefix": (
        group(instance_type="g6e.4xlarge"),
        "instance_groups[0].instance_type",
        r"'g6e\.4xlarge' is not in the catalog of .* prefix ml\..* Did you mean ml\.g6e\.4xlarge",
    ),
    "tiered storage below HyperPod's least": (
        top(hyperpod={"tiered_storage_percentage": 19}),
        "hyperpod.tiered_storage_percentage",
        r"got 19; HyperPod takes 20 to 100",
    ),
    "two groups of one name": (
        both(
            lambda c: c["instance_groups"].append(dict(c["instance_groups"][0])),
            model(instance_group="gpu"),
        ),
        "instance_groups[1].name",
        r"'gpu' stands twice \(also at instance_groups\[0\]\)",
    ),
    "two models of one name": (
        both(model(replicas=1), lambda c: c["models"].append(dict(c["models"][0]))),
        "models[1].name",
        r"'qwen' stands twice",
    ),
    "zone named twice": (
        top(zones=["us-west-2a", "us-west-2a"]),
        "zones[1]",
        r"'us-west-2a' stands twice",
    ),
    "zone of another region": (
        top(zones=["us-west-2a", "us-east-1b"]),
        "zones[1]",
        r"'us-east-1b' is no zone of us-west-2; its zones are us-west-2a, ",
    ),
    "group in a zone that is not deployed": (
        group(zone="us-west-2c"),
        "instance_groups[0].zone",
        r"'us-west-2c' is not among this deployment's zones",
    ),
    "unknown region": (top(region="us-west-9"), "region", r"'us-west-9' is no region .* us-west-2"),
    "one zone only": (
        top(zones=["us-west-2a"]),
        "zones",
        r"got 1; at least 2 are needed\. Availability zones",
    ),
    "unknown field": (
        top(modls=[]),
        "modls",
        r"there is no such field here\. Did you mean 'models'\? Allowed: name, region",
    ),
    "unknown field deep inside": (
        top(cache={"l2": {"kind": "curvine", "replicas": 2}}),
        "cache.l2.replicas",
        r"there is no such field here\. Allowed: kind, capacity_gib_per_node",
    ),
    "wrong type": (
        group(count="two"),
        "instance_groups[0].count",
        r"must be a whole number, got 'two' \(text\)",
    ),
    "number as text": (group(count="2"), "instance_groups[0].count", r"got '2' \(text\)"),
    "switch as a number": (group(count=True), "instance_groups[0].count", r"got True \(a switch\)"),
    "version without quotes": (
        top(kubernetes={"version": 1.34}),
        "kubernetes.version",
        r"must be text, got 1\.34 \(a number\); put it in quotes",
    ),
    "unsupported Kubernetes version": (
        top(kubernetes={"version": "1.29"}),
        "kubernetes.version",
        r"got '1\.29'; HyperPod documents 1\.30, ",
    ),
    "node image of another version": (
        top(kubernetes={"system_group": {"release_version": "1.34.9-20261120"}}),
        "kubernetes.system_group.release_version",
        r"got '1\.34\.9-20261120', .* of another Kubernetes version than '1\.35'; give one of",
    ),
    "no release of a node image": (
        top(kubernetes={"system_group": {"release_version": "newest"}}),
        "kubernetes.system_group.release_version",
        r"a release of EKS's node image such as 1\.35\.2-20261120",
    ),
    "required field left out": (
        lambda c: c["models"][0].pop("replicas"),
        "models[0].replicas",
        r"this field is required: Engines that serve this model",
    ),
    "list written as text": (
        top(zones="us-west-2a"),
        "zones",
        r"must be a list \(lines that begin with `- `\), got 'us-west-2a' \(text\)",
    ),
    "block left empty": (
        top(kubernetes=None),
        "kubernetes",
        r"must be a block of `field: value` lines, got None \(nothing\)",
    ),
    "value out of a choice": (
        top(router={"strategy": "random"}),
        "router.strategy",
        r"got 'random'; allowed: 'prefixaware', 'kvaware', 'session' or 'roundrobin'",
    ),
    "strategy that cannot be served": (
        top(router={"strategy": "kvaware"}),
        "router.strategy",
        r"kvaware needs the address of every engine",
    ),
    "settings of a mode that the model is not in": (
        model(operator={"endpoint_name": "chat"}),
        "models[0].operator",
        r"nothing reads it while qwen is in mode deployment; .* set mode: operator",
    ),
    "operator without a GPU to surge to": (
        model(mode="operator"),
        "models[0].mode",
        r"adding a pod before it takes one away, and every GPU of 'gpu' is taken.*Set .*count to 3",
    ),
    "operator in a region without it": (
        both(
            top(region="ca-central-1", zones=["ca-central-1a", "ca-central-1b"]),
            top(observability={"enabled": False}),
            model(mode="operator", replicas=1),
        ),
        "models[0].mode",
        r"has no image in ca-central-1; it has one in ap-northeast-1, .* or mode: deployment",
    ),
    "names that do not fit the operator's Service": (
        both(top(name="a" * 20), model(name="b" * 27, mode="operator", replicas=1)),
        "models[0].name",
        r"have 47 characters; in mode operator at most 46 fit .* routing Service",
    ),
    "folder of a claim, which the operator cannot mount": (
        model(
            mode="operator",
            replicas=1,
            weights={"kind": "claim", "name": "models", "path": "qwen2-7b/f2826a0"},
        ),
        "models[0].weights.path",
        r"the operator mounts a claim as a whole; .* or choose mode: deployment",
    ),
    "certificate without its domain": (
        model(
            mode="operator",
            replicas=1,
            operator={
                "certificate_arn": "arn:aws:acm:us-west-2:111122223333:certificate/0a1b",
            },
        ),
        "models[0].operator.certificate_domain",
        r"certificate_arn is given without it, .* both or neither; add it",
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
        r"makes no certificate where you bring one .* leave one of the two out",
    ),
    "endpoint name with an underscore": (
        model(mode="operator", replicas=1, operator={"endpoint_name": "my_chat"}),
        "models[0].operator.endpoint_name",
        r"'my_chat' is not an endpoint's name",
    ),
    "chart repository without https": (
        top(kubernetes={"kyverno": {"chart_repository": "http://charts.example.com"}}),
        "kubernetes.kyverno.chart_repository",
        r"is not the https address of a Helm repository",
    ),
    "unknown kind of L2": (
        top(cache={"l2": {"kind": "redis"}}),
        "cache.l2",
        r"got kind 'redis'; allowed: 'curvine', 'managed', 'directory', 'none'",
    ),
    "L2 switched off by nothing": (
        top(cache={"l2": None}),
        "cache.l2",
        r"must be a block .* with `kind:` curvine or managed or directory or none, got None",
    ),
    "L2 without a kind": (
        top(cache={"l2": {"masters": 3}}),
        "cache.l2",
        r"must begin with `kind:`; allowed: 'curvine', 'managed', 'directory', 'none'$",
    ),
    "managed L2 in RAM that nobody lends": (
        top(cache={"l2": {"kind": "managed"}}),
        "hyperpod.tiered_storage_percentage",
        r"cache\.l2 is managed, which is kept in the RAM that this field lends; give 20 to 100",
    ),
    "directory without a claim": (
        top(cache={"l2": {"kind": "directory", "capacity_gib": 100}}),
        "cache.l2.claim",
        r"this field is required: Claim with access mode ReadWriteMany",
    ),
    "directory without a bound": (
        top(cache={"l2": {"kind": "directory", "claim": "kv"}}),
        "cache.l2.capacity_gib",
        r"this field is required: What the engines of all models together may fill",
    ),
    "directory that climbs out of its claim": (
        top(cache={"l2": DIRECTORY | {"path": "../kv"}}),
        "cache.l2.path",
        r"'\.\./kv' is not a path inside the claim",
    ),
    "directory with a name that is no claim's": (
        top(cache={"l2": DIRECTORY | {"claim": "My_Claim"}}),
        "cache.l2.claim",
        r"'My_Claim' is not the name of a PersistentVolumeClaim",
    ),
    "claim of L2 that holds the weights, too": (
        both(
            top(cache={"l2": DIRECTORY}),
            model(weights={"kind": "claim", "name": DIRECTORY["claim"], "path": "qwen"}),
        ),
        "models[0].weights.name",
        r"is the claim of L2, too, so whoever mounts the weights could read .* a second claim",
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
        r"it is of eu-north-1, and the deployment in us-west-2; .* of the same region",
    ),
    "token in the Secret of the cache's key": (
        model(huggingface_token_secret="kv-cache-key"),  # noqa: S106 - a name
        "models[0].huggingface_token_secret",
        r"'kv-cache-key' is a name of the keys that seal cached blocks; .* another name",
    ),
    "model id with two hyphens": (
        model(model="org/my--model"),
        "models[0].model",
        r"'org/my--model' is not a Hugging Face id",
    ),
    "model called as the account of all pods": (
        model(name="default"),
        "models[0].name",
        r"'default' would collide with objects of another model or a policy",
    ),
    "name of the namespace of Mountpoint's pods": (
        top(name="mount-s3"),
        "name",
        r"'mount-s3' is the name of a namespace that belongs to Kubernetes, HyperPod or an add-on",
    ),
    "Kyverno that nobody needs": (
        top(kubernetes={"kyverno": {"image_registry": "registry.example.com"}}),
        "kubernetes.kyverno",
        r"nothing reads it without a model in mode operator",
    ),
    "tenants whose blocks lie unsealed in a host's memory": (
        both(
            top(
                cache={"l2": {"kind": "managed", "integrity": "none"}},
                hyperpod={"tiered_storage_percentage": 30},
            ),
            model(tenancy={"kind": "salted", "tenants": ["alice"]}),
        ),
        "cache.l2.integrity",
        r"got none, but qwen has tenants that are salted, .* use aesgcm",
    ),
    "file system that nobody knows": (
        top(cache={"l2": DIRECTORY | {"file_system": "ext4"}}),
        "cache.l2.file_system",
        r"got 'ext4'; allowed: 'nfs4' or 'lustre'",
    ),
    "directory too small for its engines": (
        both(
            top(cache={"l2": DIRECTORY | {"capacity_gib": 10}}),
            group(instance_type="ml.g6.12xlarge", count=4),
        ),
        "cache.l2",
        r"no room for qwen: 10 GiB of kv x 1 of 16 GPUs.* Set .*gib to 16",
    ),
    "field of another kind of L2": (
        top(cache={"l2": {"kind": "managed", "masters": 3}}, hyperpod=TIERED),
        "cache.l2.masters",
        r"there is no such field here\. Allowed: kind, integrity",
    ),
    "count below its least": (
        model(replicas=0),
        "models[0].replicas",
        r"got 0; it must be at least 1\. Engines",
    ),
    "name that cannot name resources": (
        top(name="My_Fleet"),
        "name",
        r"'My_Fleet' cannot name cloud resources; use lower-case",
    ),
    "name too long for the region's bucket": (
        top(
            name="a-deployment-abcdef",
            region="ap-northeast-1",
            zones=["ap-northeast-1a", "ap-northeast-1c"],
        ),
        "name",
        r"has 19 characters; in ap-northeast-1 at most 15 fit the name of the lifecycle script's",
    ),
    "more masters than system nodes": (
        top(
            cache={"l2": {"kind": "curvine", "masters": 3}},
            kubernetes={"system_group": {"instance_type": "m5.2xlarge"}},
        ),
        "cache.l2.masters",
        r"got 3, each on a system node .*, but there are 2\. Set .*system_group\.count to 3$",
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
        r"got 2; 20 routers, 0 Curvine masters .* ask for 5\.7 CPUs.* Set .*count to 3",
    ),
    "revision that is no commit": (
        model(revision="main"),
        "models[0].revision",
        r"'main' is not 40 lower-case hex digits",
    ),
    "more requests than tokens in a pass": (
        model(max_num_seqs=4096, max_batched_tokens=256),
        "models[0].max_batched_tokens",
        r"got 256, less than max_num_seqs \(4096\): vLLM refuses that",
    ),
    "chunk larger than a Curvine block": (
        top(cache={"chunk_size": 4096}),
        "models[0].model",
        r"more than a Curvine block of 128 MiB\. Set cache\.chunk_size to 2336",
    ),
    "chunk that a Curvine client keeps until the end": (
        top(cache={"chunk_size": 16}),
        "models[0].model",
        r"one chunk of 16 tokens .* is 896\.0 KiB .* Set cache\.chunk_size to 32",
    ),
    "requests shorter than a chunk": (
        both(model(max_model_len=256), top(cache={"chunk_size": 512})),
        "models[0].max_model_len",
        r"got 256, less than one chunk of 512 tokens, so nothing would ever be cached",
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
        r"L1 of r1 is too small for one chunk of 8192 tokens",
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
        r"ml\.g6\.xlarge cannot even hold its daemons: .* want [\d,]+ MiB of 14,162",
    ),
    "VPC too small for its pods": (
        both(top(network={"vpc_cidr": "10.0.0.0/20"}), group(count=100)),
        "network.vpc_cidr",
        r"hold 1,014 addresses, but all nodes and their pods may take [\d,]+",
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
        r"home zones us-west-2a and us-west-2b hold 1,014 addresses, .* there .* take 1,112; use",
    ),
    "model named like a router": (
        model(name="qwen-router"),
        "models[0].name",
        r"'qwen-router' would collide with objects of another model",
    ),
    "deployment named like a system namespace": (
        top(name="kube-system"),
        "name",
        r"'kube-system' is the name of a namespace that belongs to Kubernetes, HyperPod or an",
    ),
    "label of Kubernetes' own": (
        group(labels={"node.kubernetes.io/instance-type": "mine"}),
        "instance_groups[0].labels.node.kubernetes.io/instance-type",
        r"labels of node\.kubernetes\.io are set by Kubernetes or HyperPod",
    ),
    "taint named twice": (
        group(taints=[{"key": "a"}, {"key": "a"}]),
        "instance_groups[0].taints[1]",
        r"the taint 'a:NoSchedule' stands twice \(also at instance_groups\[0\]\.taints\[0\]\)",
    ),
    "role named twice": (
        top(kubernetes={"admin_role_arns": ["arn:aws:iam::111122223333:role/Admin"] * 2}),
        "kubernetes.admin_role_arns[1]",
        r"the role '.*' stands twice",
    ),
    "tag of AWS's own": (
        top(tags={"aws:team": "x"}),
        "tags.aws:team",
        r"'aws:team' is not a tag key",
    ),
    "price without end": (
        group(usd_per_hour=float("inf")),
        "instance_groups[0].usd_per_hour",
        r"must be a number, got inf",
    ),
    "switch instead of a number": (
        top(cache={"l2": {"kind": "curvine", "masters": True}}),
        "cache.l2.masters",
        r"got True \(a switch\); it must be a number",
    ),
    "path that climbs": (
        top(hyperpod={"nvme_mount": "/opt/../etc"}),
        "hyperpod.nvme_mount",
        r"'/opt/\.\./etc' is not an absolute path",
    ),
    "Grafana version in words": (
        top(observability={"grafana": {"version": "latest"}}),
        "observability.grafana.version",
        r"'latest' is not a version such as 12\.4",
    ),
    "digits of another script": (
        top(account="\u0661" * 12),
        "account",
        r"is not 12 digits",
    ),
    "unknown model": (
        model(model="Qwen/Qwen2-7B-Instuct"),
        "models[0].model",
        r"is not in the catalog\. Did you mean Qwen/Qwen2-7B-Instruct .*`config_json`",
    ),
    "gated model without a token": (
        model(model="meta-llama/Llama-3.1-8B-Instruct"),
        "models[0].huggingface_token_secret",
        r"is gated on Hugging Face; name the Secret",
    ),
    "model's file that is not there": (
        model(model="me/mine", config_json="nowhere.json"),
        "models[0].config_json",
        r"there is no Hugging Face config\.json .*nowhere\.json; .*folder of the configuration",
    ),
    "group that does not exist": (
        model(instance_group="gpus"),
        "models[0].instance_group",
        r"there is no group 'gpus'; the groups are gpu",
    ),
    "group left open among several": (
        lambda c: c["instance_groups"].append({**c["instance_groups"][0], "name": "other"}),
        "models[0].instance_group",
        r"there are several groups, so say which one runs 'qwen': gpu, other",
    ),
    "public VPC address space": (
        top(network={"vpc_cidr": "8.8.0.0/16"}),
        "network.vpc_cidr",
        r"is not in the private ranges 10\.0\.0\.0/8",
    ),
    "VPC too small": (
        top(network={"vpc_cidr": "10.0.0.0/24"}),
        "network.vpc_cidr",
        r"is a /24; a VPC here takes /16 to /20",
    ),
    "host bits in a network": (
        top(kubernetes={"public_access_cidrs": ["203.0.113.7/24"]}),
        "kubernetes.public_access_cidrs[0]",
        r"'203\.0\.113\.7/24' is the network 203\.0\.113\.0/24; write it so",
    ),
    "region without a health agent": (
        both(
            top(region="ap-northeast-2", zones=["ap-northeast-2a", "ap-northeast-2b"]),
        ),
        "images.health_agent",
        r"AWS publishes no registry for HyperPod's health agent in ap-northeast-2",
    ),
    "more system nodes than may be": (
        top(kubernetes={"system_group": {"count": 5, "max_count": 4}}),
        "kubernetes.system_group.max_count",
        r"got 4, less than the 5 nodes at the start",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_one_mistake_is_one_sentence(case: str, tmp_path: Path) -> None:
    edit, path, sentence = MISTAKES[case]
    config = base()
    edit(config)
    assert_one_sentence(write(tmp_path, config), path, sentence)


def test_pod_slots_count_every_daemon(tmp_path: Path) -> None:
    config = base()
    config["instance_groups"][0].update(instance_type="ml.g6e.2xlarge", count=2)
    config["hyperpod"] = {"tiered_storage_percentage": 20}
    plan = plan_file(write(tmp_path, config))
    (node,) = plan.cluster.groups
    assert (len(node.daemonset_pods) + node.engines_per_node, node.max_pods) == (11, 14)


WHOLE_FILES = {
    "empty": ("", r"\(whole file\): the file is empty"),
    "only a comment": ("# nothing\n", r"the file is empty"),
    "a list": ("- a\n- b\n", r"the file holds a list; it must be a mapping"),
    "a single value": ("hello", r"the file holds the single value 'hello'"),
    "broken syntax": ("name: [a\nregion: b", r"line 2: .*not valid YAML"),
    "a tab": ("name: a\n\tregion: b", r"line 2: .*not valid YAML"),
    "two documents": ("name: a\n---\nname: b\n", r"line 2: .*not valid YAML"),
    "an alias to itself": (
        "a: &a [*a]\n",
        r"line 1: .*an alias refers to a block that contains it",
    ),
    "a foreign tag": ("name: !!python/object:os.system x\n", r"name: the value 'x' cannot be read"),
    "a list as a field name": ("? [a]\n: b\n", r"a field name must be plain text"),
}


@pytest.mark.parametrize("case", WHOLE_FILES)
def test_a_file_that_is_no_configuration(case: str, tmp_path: Path) -> None:
    text, sentence = WHOLE_FILES[case]
    assert any(re.search(sentence, problem) for problem in problems_of(write(tmp_path, text)))


SCALARS = {
    "octal": ("count: 010", r"the number '010' is not plain decimal"),
    "sexagesimal": ("count: 1:30", r"the number '1:30' is not plain decimal"),
    "control character": (r'count: "\x1b[2J"', r"holds a control character; remove it"),
    "lone surrogate": (r'count: "\ud800"', r"holds a control character"),
    "far too long": ("count: " + "9" * 4000, r"the value has 4,000 characters"),
    "broken number": ("count: !!int ''", r"the (number|value) '' "),
    "broken date": ("count: 2024-13-45", r"must be a whole number, got '2024-13-45'"),
    "merge of nothing": ("labels: {<<: 3}", r"the merge `<<` cannot be done"),
    "foreign tag on a block": ("labels: !foo {a: b}", r"the tag !foo means nothing here"),
}


@pytest.mark.parametrize("case", SCALARS)
def test_values_that_yaml_reads_otherwise(case: str, tmp_path: Path) -> None:
    line, sentence = SCALARS[case]
    text = yaml.safe_dump(base()).replace("count: 2", line)
    found = [p for p in problems_of(write(tmp_path, text)) if re.search(sentence, p)]
    assert len(found) == 1, problems_of(write(tmp_path, text))


def test_a_pipe_that_nobody_writes_to_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (problem,) = problems_of(tmp_path / "pipe")
    assert "is a pipe that may never end" in problem


def test_an_endless_file_is_refused() -> None:
    (problem,) = problems_of(Path("/dev/zero"))
    assert "has more than 1,000,000 bytes" in problem


def test_a_thousand_mistakes_end_quickly(tmp_path: Path) -> None:
    config = base() | {f"k{i}": 1 for i in range(5000)}
    problems = problems_of(write(tmp_path, config))
    assert len(problems) == 201
    assert any("4,800 more mistakes" in problem for problem in problems)


def test_a_thousand_replicas_too_many_end_quickly(tmp_path: Path) -> None:
    config = base()
    config["models"] = [
        {"name": f"q{i}", "model": "Qwen/Qwen2-7B-Instruct", "replicas": 1000} for i in range(3)
    ]
    problems = problems_of(write(tmp_path, config))
    assert any("need 3,000 GPUs" in problem for problem in problems)


def test_an_alias_bomb_ends_quickly(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    (problem,) = problems_of(write(tmp_path, "\n".join(lines)))
    assert "aliases blow the file up" in problem


def test_a_missing_file(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path / "nope.yaml")
    assert re.search(r"there is no configuration file .*nope\.yaml; check the path", problem)


def test_a_folder(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path)
    assert "is a folder; name the configuration file in it" in problem


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("name: caf\xe9".encode("latin-1"))
    (problem,) = problems_of(path)
    assert "is not UTF-8 text (byte 9)" in problem


def test_a_duplicate_key_is_named_with_both_lines(tmp_path: Path) -> None:
    text = yaml.safe_dump(base()) + "region: us-east-1\n"
    problems = problems_of(write(tmp_path, text))
    last = len(text.splitlines())
    assert any(
        p.startswith(f"line {last}: region: the field 'region' stands twice") for p in problems
    )


def test_all_mistakes_are_reported_together_in_file_order(tmp_path: Path) -> None:
    text = """\
name: Bad_Name
region: us-west-2
zones: [us-west-2a, us-west-2q]
colour: blue
instance_groups:
  - {name: gpu, instance_type: ml.g6e.4xlarge, count: "2"}
  - {name: big, instance_type: ml.g6e.12xlarge, count: 1}
models:
  - {name: a, model: Qwen/Qwen2-7B-Instruct, replicas: 1, instance_group: big, tensor_parallel: 3}
  - {name: a, model: Qwen/Qwen2-7B-Instruct, replicas: 1, instance_group: none}
cache: {chunk_size: 100}
hyperpod: {tiered_storage_percentage: 5}
"""
    problems = problems_of(write(tmp_path, text))
    assert [p.split(": ")[1] for p in problems] == [
        "name",
        "zones[1]",
        "colour",
        "instance_groups[0].count",
        "models[0].tensor_parallel",
        "models[1].name",
        "models[1].instance_group",
        "cache.chunk_size",
        "hyperpod.tiered_storage_percentage",
    ]


def test_a_broken_field_brings_no_consequences_into_the_report(tmp_path: Path) -> None:
    config = base()
    config["instance_groups"][0]["instance_type"] = 5
    problems = problems_of(write(tmp_path, config))
    assert len(problems) == 1
    assert "instance_type: must be text" in problems[0]


def test_a_type_not_listed_for_the_region_is_a_warning(tmp_path: Path) -> None:
    config = base()
    config.update(region="eu-west-2", zones=["eu-west-2a", "eu-west-2b"])
    plan = plan_file(write(tmp_path, config))
    assert any("is not listed for eu-west-2" in str(warning) for warning in plan.warnings)


def test_versions_that_never_ran_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an upgrade of the catalog meets before anybody has run the pair."""
    newer = dataclasses.replace(IMAGES["engine"], carries={"vllm": "0.33.0", "lmcache": "0.5.6"})
    monkeypatch.setattr(advice, "IMAGES", {**IMAGES, "engine": newer})
    (problem,) = problems_of(write(tmp_path, base()))
    assert re.search(
        r"images: the catalog's images carry vllm 0\.33\.0, lmcache 0\.5\.6, which were never run "
        r"together \(known to be good: vllm 0\.32\.0, lmcache 0\.5\.6, .*\); name an engine image",
        problem,
    )
    # An image of one's own is one's own business, and said to be.
    own = base() | {"images": {"engine": "example.com/engine:1"}}
    warnings = [str(w) for w in plan_file(write(tmp_path, own)).warnings]
    (warning,) = [w for w in warnings if w.startswith("images.engine")]
    assert "nothing here knows what is in example.com/engine:1" in warning


def test_a_router_of_another_version_counts_only_while_it_is_the_catalogs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = dataclasses.replace(IMAGES["router"], carries={"vllm-router": "9.9.9"})
    monkeypatch.setattr(advice, "IMAGES", {**IMAGES, "router": newer})
    (problem,) = problems_of(write(tmp_path, base()))
    assert "vllm-router 9.9.9" in problem
    plan_file(write(tmp_path, base() | {"images": {"router": "example.com/router:1"}}))


def test_more_pods_than_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No catalogued type is that tight today, so one is made tighter.
    tight = dataclasses.replace(INSTANCES["ml.g6e.4xlarge"], max_pods=8)
    monkeypatch.setattr(draft, "INSTANCES", {**INSTANCES, "ml.g6e.4xlarge": tight})
    (problem,) = problems_of(write(tmp_path, base()))
    assert re.search(
        r"instance_groups\[0\]\.instance_type: .* has 8 pod slots .* 9 daemons and 1 engine want",
        problem,
    )


def test_any_other_model_by_its_config_json(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(
        '{"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 512,'
        ' "intermediate_size": 1536, "num_attention_heads": 8, "num_key_value_heads": 4,'
        ' "head_dim": 64, "vocab_size": 320, "max_position_embeddings": 16384,'
        ' "torch_dtype": "bfloat16", "tie_word_embeddings": false}'
    )
    config = base()
    config["models"][0].update(model="me/tiny", config_json="mine.json")
    plan = plan_file(write(tmp_path, config))
    assert plan.engines[0].figures.kv_per_token.value == 8192
    assert plan.engines[0].max_model_len == 16384


def test_a_model_without_an_organisation_in_mode_operator(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(
        '{"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 512,'
        ' "intermediate_size": 1536, "num_attention_heads": 8, "num_key_value_heads": 4,'
        ' "head_dim": 64, "vocab_size": 320, "max_position_embeddings": 16384,'
        ' "torch_dtype": "bfloat16", "tie_word_embeddings": false}'
    )
    config = base()
    config["models"][0].update(model="tiny", config_json="mine.json", mode="operator", replicas=1)
    (problem,) = problems_of(write(tmp_path, config))
    assert "'tiny' has no organisation" in problem
    assert "or choose mode: deployment" in problem


def test_mistakes_in_a_config_json_are_listed(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"model_type": "llama", "hidden_size": "wide"}')
    config = base()
    config["models"][0].update(model="me/tiny", config_json="mine.json")
    (problem,) = problems_of(write(tmp_path, config))
    assert "num_hidden_layers" in problem
    assert "hidden_size" in problem
