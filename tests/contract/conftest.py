"""Every contract is checked for every configuration, or with ``--few`` the main ones for three."""

from pathlib import Path
from typing import Final

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


FEW: Final = ("default", "existing", "operator")
"""Curvine and our own engines; what exists already; the operator's engines, admission, add-ons."""

_WITH_FEW: Final = ("test_manifests", "test_templates")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that takes `config` once for each configuration."""
    if "config" in metafunc.fixturenames:
        metafunc.parametrize("config", FEW if metafunc.config.option.few else CONFIGS)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the other files out where few are wanted."""
    name = collection_path.stem
    left_out = config.option.few and name.startswith("test_") and name not in _WITH_FEW
    return True if left_out else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.contract)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what is left out."""
    if not config.option.few:
        return []
    return [f"of the contracts: {', '.join(FEW)} alone; `make contract` has the rest"]
