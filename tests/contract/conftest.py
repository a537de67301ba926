"""Every contract is checked for every configuration."""

from pathlib import Path

import pytest

from tests.checkout import CONFIGS

# Programs for processes of their own.
collect_ignore = [
    "engine_checks.py",
    "scale_out_checks.py",
    "strict_app.py",
    "salted_stub.py",
    "tenancy_checks.py",
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that takes `config` once for each configuration."""
    if "config" in metafunc.fixturenames:
        metafunc.parametrize("config", CONFIGS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.contract)
