"""`kascade plan` as a person runs it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import plan_file
from kascade.catalog.endpoints import CLOSED_ENDPOINTS, GRAFANA_ENDPOINTS
from kascade.cli import main
from kascade.sizing.document import plan_text

ROOT = Path(__file__).parents[3]
DEFAULT = ROOT / "config" / "default.yaml"


def test_prints_every_tier_and_writes_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "deep" / "plan.json"
    assert main(["plan", str(DEFAULT), "--json", str(target)]) == 0
    out = capsys.readouterr().out
    for word in ("L0", "L1", "L2", "qwen2-7b", "USD/h", "prefixaware", "ml.g6e.4xlarge"):
        assert word in out
    assert not any(line.endswith(" ") for line in out.splitlines())
    assert json.loads(target.read_text())["name"] == "kascade"


@pytest.mark.parametrize("name", ["deployment.yaml", "deployment.lock", "../{}/deployment.yaml"])
def test_a_plan_replaces_no_configuration(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "deployment.yaml"
    config.write_text(DEFAULT.read_text())
    target = tmp_path / name.format(tmp_path.name)
    assert main(["plan", str(config), "--json", str(target)]) == 2
    assert config.read_text() == DEFAULT.read_text()
    assert not (tmp_path / "deployment.lock").exists()
    assert "name another file, such as plan.json" in capsys.readouterr().err


def test_a_link_to_the_configuration_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "deployment.yaml"
    config.write_text(DEFAULT.read_text())
    (tmp_path / "plan.json").symlink_to(config)
    assert main(["plan", str(config), "--json", str(tmp_path / "plan.json")]) == 2
    assert config.read_text() == DEFAULT.read_text()
    assert "would replace" in capsys.readouterr().err


def test_a_bad_file_ends_with_2_says_why_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(DEFAULT.read_text().replace("replicas: 2", "replicas: 7"))
    target = tmp_path / "plan.json"
    assert main(["plan", str(bad), "--json", str(target)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1 problem, nothing was written" in captured.err
    assert "need 7 GPUs" in captured.err
    assert not target.exists()


def test_the_same_plan_prints_the_same_text(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", str(DEFAULT)])
    first = capsys.readouterr().out
    main(["plan", str(DEFAULT)])
    assert capsys.readouterr().out == first


def _edited(tmp_path: Path, name: str, edit: Callable[[dict[str, Any]], object]) -> Path:
    config = yaml.safe_load((ROOT / "config" / f"{name}.yaml").read_text())
    edit(config)
    path = tmp_path / "edited.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def _endpoints(config: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, dict[str, str]]:
    """Return the section's title, and who calls each endpoint."""
    assert main(["plan", str(config)]) == 0
    lines = iter(capsys.readouterr().out.splitlines())
    title = next(line for line in lines if line.startswith("Endpoints"))
    rows = (re.split(r" {2,}", line.strip(), maxsplit=1) for line in iter(lines.__next__, ""))
    return title, {name: caller for names, caller in rows for name in names.split(", ")}


def test_a_closed_networks_endpoints_are_named_with_their_callers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = ROOT / "config" / "closed.yaml"
    title, named = _endpoints(config, capsys)
    assert title == "Endpoints"
    gateway = {"s3": "what lies in S3 (a gateway, no interface)"}
    assert named == {**gateway, **CLOSED_ENDPOINTS, **GRAFANA_ENDPOINTS}
    assert set(plan_file(config).network.interface_endpoints) == set(CLOSED_ENDPOINTS)


def test_without_a_private_page_of_grafana_its_endpoints_are_not_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, named = _endpoints(
        _edited(tmp_path, "closed", lambda c: c.update(observability={"enabled": False})), capsys
    )
    assert named.keys() == {"s3", *CLOSED_ENDPOINTS}


def test_of_somebodys_closed_vpc_it_says_who_makes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vpc = yaml.safe_load((ROOT / "config" / "existing.yaml").read_text())["network"]

    def edit(config: dict[str, Any]) -> None:
        config["network"] = {**vpc, "nat": "none"}

    title, named = _endpoints(_edited(tmp_path, "closed", edit), capsys)
    assert title == (
        "Endpoints  to be made in vpc-0123456789abcdef0 by its owner, but for Grafana's"
    )
    assert named.keys() == {"s3", *CLOSED_ENDPOINTS, *GRAFANA_ENDPOINTS}


def test_an_open_network_has_no_list_of_endpoints(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", str(DEFAULT)])
    assert "Endpoints" not in capsys.readouterr().out


CONFIGS = sorted(path.name for path in (ROOT / "config").glob("*.yaml"))


def _one_of_each(config: dict[str, Any]) -> None:
    config["instance_groups"][0]["count"] = 1
    config["models"] = [{**config["models"][0], "replicas": 1}]


def _of_one(text: str) -> list[str]:
    """Find a one before a plural, with a word or two between, such as ``1 Curvine masters``."""
    return re.findall(r"(?<![\d.,-])1 (?:[A-Z]\w* |pod |ready )?[A-Za-z]+s\b", text)


@pytest.mark.parametrize("name", CONFIGS)
def test_one_thing_has_no_plural(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main(["plan", str(ROOT / "config" / name)]) == 0
    assert _of_one(capsys.readouterr().out) == []


def test_one_of_everything_has_no_plural(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(_edited(tmp_path, "default", _one_of_each))]) == 0
    assert _of_one(capsys.readouterr().out) == []


def test_a_refusal_counts_one_router_and_one_master(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def edit(config: dict[str, Any]) -> None:
        tenants = [f"team-{number}" for number in range(20)]
        config["models"][0]["tenancy"] = {"kind": "salted", "tenants": tenants}

    assert main(["plan", str(_edited(tmp_path, "default", edit))]) == 2
    said = capsys.readouterr().err
    assert "got 2; 1 router, 40 doors, 1 Curvine master and the add-ons" in said
    assert _of_one(said) == []


def test_the_search_for_plurals_finds_some() -> None:
    text = "got 2; 1 routers, 1 Curvine masters, 1 pod slots, 1 of 1 GPUs, 11 routers, 0.1 hours"
    assert _of_one(text) == ["1 routers", "1 Curvine masters", "1 pod slots", "1 GPUs"]


def test_a_dash_means_standard_output_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plan", str(DEFAULT), "--json", "-"]) == 0
    said = capsys.readouterr()
    assert said.out == plan_text(plan_file(DEFAULT))
    assert said.err == ""
    assert list(tmp_path.iterdir()) == []


def test_the_checkout_holds_no_file_of_that_name() -> None:
    assert not (ROOT / "-").exists()
