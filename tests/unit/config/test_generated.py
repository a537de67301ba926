"""The generated files follow from the models."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from kascade import load_config
from kascade.catalog.images import IMAGES
from kascade.config.blocks import ImagesConfig
from kascade.config.generate import reference_text, schema_text

CONFIG = Path(__file__).parents[3] / "config"


def test_the_committed_schema_is_current() -> None:
    assert (CONFIG / "schema.json").read_text() == schema_text()


def test_the_committed_reference_is_current() -> None:
    assert (CONFIG / "reference.yaml").read_text() == reference_text()


@pytest.mark.parametrize("name", ["default", "fleet", "laptop", "reference", "weights"])
def test_shipped_files_agree_with_the_schema(name: str) -> None:
    content = yaml.safe_load((CONFIG / f"{name}.yaml").read_text())
    jsonschema.validate(content, json.loads(schema_text()))


def test_the_reference_shows_the_defaults() -> None:
    reference = load_config(CONFIG / "reference.yaml")
    shortest = yaml.safe_load((CONFIG / "default.yaml").read_text())
    del shortest["hyperpod"], shortest["router"]
    shortest["models"][0].pop("instance_group", None)
    assert reference == type(reference).model_validate(shortest | {"name": reference.name})


def test_every_image_can_be_replaced() -> None:
    assert set(ImagesConfig.model_fields) == {*IMAGES, "health_agent"}
