"""Mistakes about AWS's own chart of HyperPod's dependencies, and the sentence for each."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import InvalidConfigError, load_config, plan_file, plan_serving
from kascade.config.lock import check_lock, locked_values
from kascade.kube.dependencies_chart import dependencies_values
from tests.unit.config.test_invariants import assert_one_sentence, problems_of, write

ROOT = Path(__file__).parents[3]
CHART = ROOT / "tests" / "data" / "charts" / "hyperpod"
AGENT = Path("charts", "health-monitoring-agent")

Edit = Callable[[dict[str, Any], Path], object]
"""Of the configuration and of the chart's folder."""


def named(path: str) -> Edit:
    return lambda config, _: config["kubernetes"].update(dependencies_chart=path)


def without(part: str) -> Edit:
    return lambda _, chart: shutil.rmtree(chart / part)


def written(file: str, content: str | bytes) -> Edit:
    def edit(_: dict[str, Any], chart: Path) -> None:
        content_bytes = content if isinstance(content, bytes) else content.encode()
        (chart / file).write_bytes(content_bytes)

    return edit


def of_type(name: str) -> Edit:
    return lambda config, _: config["instance_groups"][0].update(instance_type=name)


def in_region(name: str) -> Edit:
    return lambda config, _: config.update(region=name, zones=[f"{name}a", f"{name}b"])


def on_a_cluster_that_is_there(config: dict[str, Any], _: Path) -> None:
    there = yaml.safe_load((ROOT / "config" / "existing.yaml").read_text())
    there["kubernetes"] |= config["kubernetes"]
    config.clear()
    config.update(there)


MISTAKES: dict[str, tuple[Edit, str]] = {
    "an absolute path": (
        named("/opt/chart"),
        r"'/opt/chart' is an absolute path, .*; give it relative to the folder of this file",
    ),
    "no such folder": (
        named("chart-2"),
        (
            r"there is no folder chart-2 \(it counts from the folder of the configuration file\); "
            r"name helm_chart/HyperPodHelmChart in a clone"
        ),
    ),
    "a file": (named("chart/Chart.yaml"), r"chart/Chart\.yaml is a file; name the folder"),
    "nothing": (named(""), r"there is no chart \./Chart\.yaml; check the path"),
    "the folder above": (
        named("."),
        r"there is no chart \./Chart\.yaml; check the path \(it counts from the folder of the",
    ),
    "no YAML": (written("Chart.yaml", "a: [b"), r"chart/Chart\.yaml is not valid YAML; restore it"),
    "a list": (written("Chart.yaml", "- a"), r"is not AWS's chart .* does not list health-moni"),
    "no text": (written("Chart.yaml", b"\xff\xfe"), r"Chart\.yaml is not UTF-8 text"),
    "another chart": (
        written("Chart.yaml", "name: nginx\ndependencies: [{name: common}, 3]\n"),
        (
            r"chart is not AWS's chart .*: its Chart\.yaml does not list health-monitoring-agent, "
            r".*; name helm_chart/HyperPodHelmChart in a clone"
        ),
    ),
    "parts that were not fetched": (
        without("charts/nvidia-device-plugin"),
        r"chart/charts lacks nvidia-device-plugin, and Helm .*; run `helm dependency update` in",
    ),
    "a part that is off and was not fetched": (
        without("charts/mpi-operator"),
        r"chart/charts lacks mpi-operator, and Helm",
    ),
    "an agent without templates": (
        without(f"{AGENT}/templates"),
        r"health-monitoring-agent/templates has no files, so nothing says which nodes",
    ),
    "a name that no folder has": (
        named("a" * 290),
        r"a{290} cannot be looked at: File name too long; name helm_chart",
    ),
    "a part that nothing switches off": (
        lambda _, chart: (chart / "Chart.yaml").write_text(
            (chart / "Chart.yaml").read_text().replace("    condition: of-tomorrow.enabled\n", "")
        ),
        r"chart/Chart\.yaml gives of-tomorrow no condition, .*; take it out of the dependencies",
    ),
    "a type that the agent does not know": (
        of_type("ml.g6e.2xlarge"),
        (
            r"runs on listed types only, and ml\.g6e\.2xlarge is not among them, so HyperPod would "
            r"replace no broken node; take a newer clone, another type, or leave this out"
        ),
    ),
    "a region that the agent does not know": (
        in_region("us-east-2"),
        r"knows no registry in us-east-2 .*; take a newer clone, or name the image in images\.",
    ),
    "a HyperPod cluster that is there": (
        on_a_cluster_that_is_there,
        r"nothing reads it with hyperpod\.existing: the cluster brought what it needs",
    ),
}


def lay_out(folder: Path, edit: Edit | None = None) -> Path:
    config = yaml.safe_load((ROOT / "config" / "default.yaml").read_text())
    config["kubernetes"] = config.get("kubernetes", {}) | {"dependencies_chart": "chart"}
    shutil.copytree(CHART, folder / "chart")
    if edit is not None:
        edit(config, folder / "chart")
    return write(folder, config)


@pytest.mark.parametrize(("edit", "words"), MISTAKES.values(), ids=MISTAKES.keys())
def test_one_mistake_is_one_sentence(edit: Edit, words: str, tmp_path: Path) -> None:
    assert_one_sentence(lay_out(tmp_path, edit), "kubernetes.dependencies_chart", words)


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
