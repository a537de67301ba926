"""InferenceEndpointConfigs against HyperPod's own SDK, and against the operator's CRD."""

import copy
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pydantic
import pytest
import yaml

from kascade import ServingPlan, plan_file
from tools.hyperpod_env import endpoint_models
from tools.outputs import Document, Outputs

KIND = "InferenceEndpointConfig"
_DATA = os.environ.get("KASCADE_DATA")
_CRD = "inference.sagemaker.aws.amazon.com_inferenceendpointconfigs.yaml"

Synthesized = Callable[[str], Outputs]


def endpoints(synthesized: Synthesized, config: str) -> list[Document]:
    return [item for _, item in synthesized(config).objects() if item["kind"] == KIND]


def complaint(spec: Document) -> str | None:
    """Return what the SDK says against a specification, or which parts of it it does not know."""
    try:
        read = endpoint_models()._HPEndpoint(**spec)
    except pydantic.ValidationError as error:
        return str(error)
    known = read.model_dump(exclude_unset=True)
    lost = _lost(spec, known)
    return f"not known: {lost}" if lost else None


def _lost(given: Any, known: Any, path: str = "") -> list[str]:
    if isinstance(given, dict) and isinstance(known, dict):
        return [
            found
            for key, value in given.items()
            for found in (
                _lost(value, known[key], f"{path}.{key}") if key in known else [f"{path}.{key}"]
            )
        ]
    return [] if given == known else [f"{path}: {given!r} became {known!r}"]


def test_each_operator_managed_model_has_an_endpoint(
    synthesized: Synthesized, plan: Callable[[str], ServingPlan], config: str
) -> None:
    names = [item["metadata"]["name"] for item in endpoints(synthesized, config)]
    assert names == list(plan(config).operator_managed)


def test_some_configuration_has_one(synthesized: Synthesized) -> None:
    assert endpoints(synthesized, "operator")


def test_the_sdk_knows_every_field(synthesized: Synthesized, config: str) -> None:
    said = [complaint(item["spec"]) for item in endpoints(synthesized, config)]
    assert said == [None] * len(said)


MISTAKES: dict[str, Callable[[Document], object]] = {
    "modelName": lambda spec: spec.pop("modelName"),
    "imge": lambda spec: spec["worker"].update(imge=spec["worker"]["image"]),
    "routingStrategy": lambda spec: spec["intelligentRoutingSpec"].update(routingStrategy="best"),
    "modelSourceType": lambda spec: spec["modelSourceConfig"].update(modelSourceType="hub"),
    "tolerations": lambda spec: spec.update(tolerations=[]),
}


@pytest.mark.parametrize("word", MISTAKES)
def test_the_sdk_refuses_a_mistake(synthesized: Synthesized, word: str) -> None:
    spec = copy.deepcopy(endpoints(synthesized, "operator")[0]["spec"])
    MISTAKES[word](spec)
    # The SDK calls a field by its own spelling: model_name.
    assert word.lower() in (complaint(spec) or "").replace("_", "").lower()


# --- the CRD itself, which is others' -------------------------------------------------------------


@pytest.fixture(scope="session")
def schema() -> Document:
    """Return the schema of v1, closed: an unknown field would be dropped without a word."""
    if _DATA is None:
        pytest.skip("KASCADE_DATA names no folder with the operator's CRD")
    crd = yaml.load((Path(_DATA) / "crds" / _CRD).read_text(), Loader=yaml.CSafeLoader)
    (version,) = [v for v in crd["spec"]["versions"] if v["name"] == "v1"]
    found: Document = _closed(version["schema"]["openAPIV3Schema"])
    return found


def _closed(node: Any) -> Any:
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _closed(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and "additionalProperties" not in node:
        made["additionalProperties"] = False
    if node.get("x-kubernetes-int-or-string"):
        made.pop("pattern", None)
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    return made


def against(schema: Document, item: Document) -> list[str]:
    spec = {"spec": item["spec"]}
    narrowed = {**schema, "properties": {"spec": schema["properties"]["spec"]}, "required": []}
    return [error.message for error in jsonschema.Draft7Validator(narrowed).iter_errors(spec)]


def test_the_crd_takes_it(synthesized: Synthesized, schema: Document, config: str) -> None:
    said = [against(schema, item) for item in endpoints(synthesized, config)]
    assert said == [[]] * len(said)


@pytest.mark.parametrize("word", MISTAKES)
def test_the_crd_refuses_a_mistake(synthesized: Synthesized, schema: Document, word: str) -> None:
    item = copy.deepcopy(endpoints(synthesized, "operator")[0])
    MISTAKES[word](item["spec"])
    assert against(schema, item)


# --- rules across fields, which neither knows -----------------------------------------------------


def variants(tmp_path: Path) -> Iterator[ServingPlan]:
    config = yaml.safe_load((Path(__file__).parents[2] / "config" / "operator.yaml").read_text())
    for extra in (
        {},
        {"endpoint_name": "Chat-1", "invocation_path": "v1/completions"},
        {
            "certificate_arn": "arn:aws:acm:us-west-2:111122223333:certificate/0a1b2c3d",
            "certificate_domain": "models.example.com",
        },
        {"certificate_output": "s3://certificates/of-models"},
    ):
        config["models"][1]["operator"] = extra
        config["models"][1]["huggingface_token_secret"] = "hub" if extra else None
        file = tmp_path / "variant.yaml"
        file.write_text(yaml.safe_dump(config))
        yield plan_file(file)
    del config["models"][1]["huggingface_token_secret"]
    for weights in ({"kind": "claim", "name": "models"}, _BUCKET):
        config["models"][1]["weights"] = weights
        file.write_text(yaml.safe_dump(config))
        yield plan_file(file)


_BUCKET = {"kind": "s3", "bucket": "example-models", "prefix": "qwen2-7b/f2826a0"}


def test_every_setting_fits_the_sdk_and_the_operators_rules(tmp_path: Path) -> None:
    from kascade.kube.inference_endpoint import endpoint

    seen, kinds = set(), set()
    for plan in variants(tmp_path):
        engine = plan.engines[1]
        assert engine.operator is not None
        spec: Any = endpoint(engine, engine.operator)
        assert complaint(spec) is None
        assert sum(name in spec for name in ("instanceType", "instanceTypes", "nodeAffinity")) == 1
        source, mount = spec["modelSourceConfig"], spec["worker"]["modelVolumeMount"]
        if source["modelSourceType"] == "huggingface":
            assert source["huggingFaceModel"]["modelId"] == spec["worker"]["args"][0]
            assert re.fullmatch(r"[\w.-]+/[\w.-]+", source["huggingFaceModel"]["modelId"])
        else:
            assert [v["name"] for v in spec["kubernetes"]["volumes"]] == [mount["name"]]
        kinds.add(source["modelSourceType"])
        port = spec["worker"]["modelInvocationPort"]["containerPort"]
        assert spec["metrics"]["modelMetrics"]["port"] == port
        assert engine.lmcache.http_port not in {port, engine.operator.proxy_port}
        assert len(f"{engine.name}-{engine.namespace}-routing-service") <= 63
        seen |= set(spec) | set(spec.get("tlsConfig", {}))
    assert {"endpointName", "customCertificateConfig", "tlsCertificateOutputS3Uri"} <= seen
    assert kinds == {"huggingface", "kubernetesVolume"}
