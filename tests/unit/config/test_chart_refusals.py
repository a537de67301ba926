"""Errors about AWS's own chart of HyperPod's dependencies, and the sentence for each."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from kascade import InvalidConfigError, load_config, plan_file, plan_serving
from kascade.config.lock import check_lock, locked_values
from kascade.kube.dependencies_chart import dependencies_values
from tests.unit.config.builders import problems_of
from tests.unit.rules.rows.charts import ROOT, in_region, lay_out, of_type

CHART = ROOT / "tests" / "data" / "charts" / "hyperpod"


def test_type_and_region_are_two_mistakes(tmp_path: Path) -> None:
    def both(config: dict[str, Any], chart: Path) -> None:
        of_type("ml.g6e.2xlarge")(config, chart)
        in_region("us-east-2")(config, chart)

    assert len(problems_of(lay_out(tmp_path, both))) == 2


def test_an_image_of_ones_own_needs_no_registry(tmp_path: Path) -> None:
    def edit(config: dict[str, Any], chart: Path) -> None:
        in_region("us-east-2")(config, chart)
        config["images"] = {"health_agent": "registry.example.com/agent:2"}

    chart = plan_file(lay_out(tmp_path, edit)).platform.dependencies_chart
    assert chart is not None
    assert chart.images == {"health_agent": "registry.example.com/agent:2"}


def test_whatever_serving_does_not_need_is_off(tmp_path: Path) -> None:
    platform = plan_file(lay_out(tmp_path)).platform
    assert not platform.agents
    assert platform.dependencies_chart is not None
    assert {k for k, on in platform.dependencies_chart.switches.items() if not on} == {
        "aws-efa-k8s-device-plugin.devicePlugin.enabled",  # no type here has it
        "mpi-operator.enabled",
        "of-tomorrow.enabled",
    }


def test_an_archive_is_as_good_as_a_folder(tmp_path: Path) -> None:
    def archived(_: dict[str, Any], chart: Path) -> None:
        shutil.rmtree(chart / "charts" / "nvidia-device-plugin")
        (chart / "charts" / "nvidia-device-plugin-0.16.1.tgz").touch()

    assert plan_file(lay_out(tmp_path, archived)).platform.dependencies_chart is not None


def test_without_the_file_a_chart_has_to_be_handed_over(tmp_path: Path) -> None:
    config = load_config(lay_out(tmp_path))
    with pytest.raises(InvalidConfigError, match="what is in this chart is not known here"):
        plan_serving(config)


def test_it_cannot_be_changed_later(tmp_path: Path) -> None:
    config = load_config(lay_out(tmp_path))
    lock = locked_values(config)
    plain = config.model_copy(
        update={"kubernetes": config.kubernetes.model_copy(update={"dependencies_chart": None})}
    )
    (problem,) = check_lock(plain, lock, "x.lock")
    assert problem.path == ("kubernetes", "dependencies_chart")
    assert list(check_lock(config, lock, "x.lock")) == []


def test_a_condition_of_two_parts_is_on_where_one_is_wanted(tmp_path: Path) -> None:
    def both(_: dict[str, Any], chart: Path) -> None:
        text = (chart / "Chart.yaml").read_text()
        both = text.replace(
            "condition: mpi-operator.enabled", "condition: job-auto-restart.enabled"
        )
        (chart / "Chart.yaml").write_text(both)

    chart = plan_file(lay_out(tmp_path, both)).platform.dependencies_chart
    assert chart is not None
    assert chart.switches["job-auto-restart.enabled"]


def test_a_condition_within_another_is_no_crash(tmp_path: Path) -> None:
    def nested(_: dict[str, Any], chart: Path) -> None:
        text = (chart / "Chart.yaml").read_text()
        inner = "condition: mpi-operator.enabled,mpi-operator.enabled.foo"
        (chart / "Chart.yaml").write_text(text.replace("condition: mpi-operator.enabled", inner))

    platform = plan_file(lay_out(tmp_path, nested)).platform
    assert platform.dependencies_chart is not None
    values = dependencies_values(platform.dependencies_chart, platform, region="us-west-2")
    assert values["mpi-operator"]["enabled"] in (False, {"foo": False})


def test_a_lock_of_before_the_field_is_one_without_a_chart(tmp_path: Path) -> None:
    config = load_config(lay_out(tmp_path))
    lock = {k: v for k, v in locked_values(config).items() if "dependencies" not in k}
    (problem,) = check_lock(config, lock, "x.lock")
    assert problem.path == ("kubernetes", "dependencies_chart")
    assert list(check_lock(config, {}, "x.lock")) == []
