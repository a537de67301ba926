"""Every region that is offered has a configuration that passes."""

from pathlib import Path

import pytest

from kascade import plan_file
from kascade.catalog.regions import REGIONS, WITHOUT_HYPERPOD, WITHOUT_MANAGED_GRAFANA
from tests.unit.config.builders import base, codes_of, write


def in_region(name: str, *, observed: bool) -> dict[str, object]:
    config = base() | {"region": name, "zones": list(REGIONS[name].zones[:2])}
    if REGIONS[name].health_agent_account is None:
        config["images"] = {"health_agent": "registry.example/agent@sha256:" + "0" * 64}
    return config if observed else config | {"observability": {"enabled": False}}


@pytest.mark.parametrize("name", REGIONS)
def test_a_region_has_a_configuration(tmp_path: Path, name: str) -> None:
    observed = name not in WITHOUT_MANAGED_GRAFANA
    path = write(tmp_path, in_region(name, observed=observed))
    assert plan_file(path).region == name


@pytest.mark.parametrize("name", WITHOUT_MANAGED_GRAFANA)
def test_dashboards_where_there_is_no_grafana_are_refused(tmp_path: Path, name: str) -> None:
    found = codes_of(write(tmp_path, in_region(name, observed=True)))
    assert found == [("observability", "no-managed-grafana")]


@pytest.mark.parametrize("name", WITHOUT_HYPERPOD)
def test_a_region_without_hyperpod_is_not_offered(tmp_path: Path, name: str) -> None:
    config = base() | {"region": name, "zones": [f"{name}a", f"{name}b"]}
    assert codes_of(write(tmp_path, config)) == [("region", "unknown-region")]
