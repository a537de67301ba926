"""`kascade plan` as a person runs it."""

import json
import os
import re
import subprocess
import sys
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


@pytest.mark.parametrize("name", ["deployment.LOCK", "deployment.Yaml", "other.yml"])
def test_no_suffix_of_a_configuration_is_taken(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(DEFAULT), "--json", str(tmp_path / name)]) == 2
    assert list(tmp_path.iterdir()) == []
    assert "would replace" in capsys.readouterr().err


def _with_files(folder: Path) -> Path:
    """Return a locked configuration that names a file of each kind."""
    config = folder / "deployment.yaml"
    content = yaml.safe_load(DEFAULT.read_text())
    content["zone_offerings"] = "offerings.data"
    content["models"][0]["config_json"] = "model.data"
    content["kubernetes"] = {"dependencies_chart": "chart"}
    config.write_text(yaml.safe_dump(content))
    for name in ("offerings.data", "model.data", "deployment.lock", "chart/values.data"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("kept")
    return config


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize(
    "name", ["deployment.lock", "offerings.data", "model.data", "chart/values.data"]
)
def test_a_link_to_what_the_configuration_names_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, hard: bool
) -> None:
    config, link = _with_files(tmp_path), tmp_path / "k.json"
    if not (hard and "chart" in name):  # hundreds of files, of which none is asked
        (link.hardlink_to if hard else link.symlink_to)(tmp_path / name)
        assert main(["plan", str(config), "--json", str(link)]) == 2
        assert "which it would replace" in capsys.readouterr().err
    assert main(["plan", str(config), "--json", str(tmp_path / name)]) == 2
    assert "which it would replace" in capsys.readouterr().err
    assert (tmp_path / name).read_text() == "kept"


def test_a_link_to_a_lock_that_is_not_there_makes_none(tmp_path: Path) -> None:
    config = tmp_path / "deployment.yaml"
    config.write_text(DEFAULT.read_text())
    (tmp_path / "k.json").symlink_to(tmp_path / "deployment.lock")
    assert main(["plan", str(config), "--json", str(tmp_path / "k.json")]) == 2
    assert not (tmp_path / "deployment.lock").exists()


def test_a_link_to_itself_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.json").symlink_to("k.json")
    assert main(["plan", str(DEFAULT), "--json", str(tmp_path / "k.json")]) == 2
    assert "k.json cannot be written: Too many levels" in capsys.readouterr().err


def test_another_file_is_written_again(tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    assert main(["plan", str(DEFAULT), "--json", str(target)]) == 0
    assert main(["plan", str(DEFAULT), "--json", str(target)]) == 0


def _shell(
    folder: Path, verb: str, then: str, before: str = ""
) -> subprocess.CompletedProcess[str]:
    (folder / "mine.yaml").write_text(DEFAULT.read_text())
    script = f'{before}"$1" -m kascade.cli {verb} {then}'
    return subprocess.run(
        ["/bin/sh", "-c", script, "sh", sys.executable],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "verb",
    ["plan mine.yaml", "lock mine.yaml", "plan mine.yaml --json -", "plan mine.yaml --json x"],
)
def test_a_closed_output_is_one_sentence_and_nothing_is_written(tmp_path: Path, verb: str) -> None:
    ended = _shell(tmp_path, verb, ">&-")
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("standard output is closed, so nothing was done")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


@pytest.mark.parametrize("verb", ["plan", "lock"])
def test_an_output_that_takes_nothing_is_one_sentence(tmp_path: Path, verb: str) -> None:
    ended = _shell(tmp_path, f"{verb} mine.yaml", "1</dev/null")
    assert ended.returncode == 2
    assert ended.stderr == "the output cannot be written: Bad file descriptor\n"


@pytest.mark.parametrize("verb", ["plan", "lock"])
def test_a_reader_that_has_seen_enough_is_no_failure(tmp_path: Path, verb: str) -> None:
    script = f"{verb} mine.yaml; echo $? >code; }}"
    ended = _shell(tmp_path, script, "| true; cat code >&2", before="{ ")
    assert ended.stderr == "0\n"


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
    assert "got 2; 1 router, 40 tenant gateways, 1 Curvine master and the add-ons" in said
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
