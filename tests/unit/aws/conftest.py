"""Templates, synthesized once for all tests of this folder that only read them."""

import pytest

from tests.unit.aws.builders import Synthesis, make_plan, synthesize


@pytest.fixture(scope="session")
def synthesis(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    return synthesize(tmp_path_factory.mktemp("assembly"), make_plan())
