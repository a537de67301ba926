"""What cannot be changed during the life of a deployment."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import InvalidConfigError, load_config, plan_file
from kascade.cli import main
from kascade.config.lock import FIXED, HELD, lock_path, locked_values
from kascade.errors import format_path
from tests.unit.config.builders import codes_of
from tests.unit.rules.rows.locks import CHANGES

ROOT = Path(__file__).parents[3]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A deployed configuration."""
    path = tmp_path / "mine.yaml"
    path.write_text((ROOT / "config" / "default.yaml").read_text())
    edit(path, account="123456789012", cache={"l2": {"kind": "curvine"}})
    assert main(["lock", str(path)]) == 0
    return path


def edit(path: Path, **changes: object) -> None:
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(content | changes, sort_keys=False))


def sentences(path: Path) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        plan_file(path)
    return [str(problem) for problem in caught.value.problems]


def test_the_lock_holds_everything_that_is_fixed(config: Path) -> None:
    written = yaml.safe_load(lock_path(config).read_text())
    assert written == locked_values(load_config(config))
    assert list(written) == [format_path(path) for path in HELD]


def test_every_fixed_field_has_a_case() -> None:
    """Three that need more than this file have theirs in test_{existing,chart}_refusals."""
    elsewhere = {"kubernetes.existing", "kubernetes.dependencies_chart", "hyperpod.existing"}
    assert set(CHANGES) | elsewhere == {format_path(path) for path in FIXED}


def test_all_changes_are_reported_at_once(config: Path) -> None:
    edit(config, name="other", network={"vpc_cidr": "10.1.0.0/16"})
    assert len(sentences(config)) == 2


def test_what_is_not_fixed_may_change(config: Path) -> None:
    before = lock_path(config).read_text()
    edit(config, tags={"team": "x"}, router={"strategy": "session"})
    plan_file(config)
    assert main(["lock", str(config)]) == 0
    assert lock_path(config).read_text() == before


def test_zones_may_grow_at_their_end_and_are_locked_then(config: Path) -> None:
    edit(config, zones=["us-west-2a", "us-west-2b", "us-west-2c"])
    plan_file(config)
    assert main(["lock", str(config)]) == 0
    edit(config, zones=["us-west-2a", "us-west-2b"])
    (sentence,) = sentences(config)
    assert "says that us-west-2a, us-west-2b, us-west-2c is deployed" in sentence


def versioned(path: Path, version: str) -> None:
    edit(path, kubernetes={"version": version})


def test_the_kubernetes_version_goes_up_one_step_at_a_time(config: Path) -> None:
    lock_path(config).unlink()
    versioned(config, "1.33")
    assert main(["lock", str(config)]) == 0
    versioned(config, "1.35")
    assert codes_of(config) == [("kubernetes.version", "kubernetes-upgrade")]
    (sentence,) = sentences(config)
    assert "'1.34'" in sentence
    assert main(["lock", str(config)]) == 2
    for version in ("1.34", "1.35"):
        versioned(config, version)
        plan_file(config)
        assert main(["lock", str(config)]) == 0
        assert f"kubernetes.version: '{version}'" in lock_path(config).read_text()


def test_the_kubernetes_version_goes_back_only_where_it_never_went_up(config: Path) -> None:
    """The lock is written before the deployment, which may fail before EKS hears of it."""
    versioned(config, "1.34")
    assert codes_of(config) == [("kubernetes.version", "kubernetes-downgrade")]
    lock = lock_path(config)
    lock.write_text(lock.read_text().replace("'1.35'", "'1.34'"))
    plan_file(config)


def test_a_lock_of_before_the_version_was_held_leaves_it_free_once(config: Path) -> None:
    lock = lock_path(config)
    lines = [line for line in lock.read_text().splitlines() if "kubernetes.version" not in line]
    lock.write_text("\n".join(lines))
    versioned(config, "1.33")
    assert main(["lock", str(config)]) == 0
    versioned(config, "1.35")
    (sentence,) = sentences(config)
    assert "Deploy '1.34' first" in sentence


def test_a_zone_before_the_deployed_ones_is_refused(config: Path) -> None:
    edit(config, zones=["us-west-2c", "us-west-2a", "us-west-2b"])
    assert codes_of(config) == [("zones", "locked")]


def test_without_a_lock_all_is_free(config: Path) -> None:
    lock_path(config).unlink()
    edit(config, name="other")
    assert plan_file(config).name == "other"


def test_masters_of_a_pool_that_was_switched_off_stay_fixed(config: Path) -> None:
    """The workers' directories outlive the pool, and another number is a cold rebuild."""
    edit(config, cache={"l2": {"kind": "none"}})
    assert main(["lock", str(config)]) == 0
    edit(
        config,
        cache={"l2": {"kind": "curvine", "masters": 3}},
        kubernetes={"system_group": {"count": 4}},
    )
    assert codes_of(config) == [("cache.l2.masters", "locked")]


def test_a_deployment_that_gets_curvine_later_is_locked_then(config: Path) -> None:
    lock_path(config).unlink()
    edit(config, cache={"l2": {"kind": "none"}})
    main(["lock", str(config)])
    assert "cache.l2.masters" not in lock_path(config).read_text()
    edit(config, cache={"l2": {"kind": "curvine"}})
    main(["lock", str(config)])
    assert "cache.l2.masters: 1" in lock_path(config).read_text()


def test_a_changed_configuration_is_not_locked(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = lock_path(config).read_text()
    edit(config, name="other")
    assert main(["lock", str(config)]) == 2
    assert "fixed for life" in capsys.readouterr().err
    assert lock_path(config).read_text() == before


def test_a_lock_that_cannot_be_written_whole_leaves_the_old_one(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = lock_path(config)
    before, there = lock.read_text(), sorted(config.parent.iterdir())
    edit(config, zones=["us-west-2a", "us-west-2b", "us-west-2c"])
    write = Path.write_text

    def half(path: Path, text: str, **options: Any) -> int:
        write(path, text[: len(text) // 2], **options)
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", half)
    assert main(["lock", str(config)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert lock.read_text() == before
    assert sorted(config.parent.iterdir()) == there


def test_a_lock_that_is_a_link_stays_one(config: Path, tmp_path: Path) -> None:
    lock, real = lock_path(config), tmp_path / "elsewhere" / "real.lock"
    real.parent.mkdir()
    lock.rename(real)
    lock.symlink_to(real)
    edit(config, zones=["us-west-2a", "us-west-2b", "us-west-2c"])
    assert main(["lock", str(config)]) == 0
    assert lock.is_symlink()
    assert "us-west-2c" in real.read_text()


def test_a_lock_that_leads_nowhere_is_no_absent_lock(config: Path) -> None:
    lock_path(config).unlink()
    lock_path(config).symlink_to("nowhere")
    assert codes_of(config) == [("(whole file)", "lock-file")]


def test_an_account_stays_written_down(config: Path) -> None:
    content = yaml.safe_load(config.read_text())
    del content["account"]
    config.write_text(yaml.safe_dump(content, sort_keys=False))
    assert codes_of(config) == [("account", "locked")]


def test_a_broken_field_is_not_reported_twice(config: Path) -> None:
    edit(config, name="Not A Name")
    assert codes_of(config) == [("name", "not-a-short-name")]


def test_the_page_on_upgrades_names_all_that_is_fixed() -> None:
    page = (ROOT / "docs" / "upgrades.md").read_text()
    assert [path for path in map(format_path, HELD) if f"`{path}`" not in page] == []
