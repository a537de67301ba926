"""Values of the cluster half that look right and that AWS or Kubernetes would not take."""

from pathlib import Path

import pytest
import yaml

from kascade import ServingConfig, plan_file
from kascade.catalog.schedules import SCHEDULE
from kascade.config.lock import lock_text, locked_values
from tests.unit.config.builders import base, both, write
from tests.unit.rules.rows.values import ROOT, kubernetes, updates


@pytest.mark.parametrize(
    "schedule",
    [
        "cron(0 3 ? * SUN *)",
        "cron(30 23 1 */2 ? 2027)",
        "cron(05 9 ? 12 6#3 *)",
        "cron(0 0 ? * L *)",
    ],
)
def test_schedules_that_hyperpod_takes(schedule: str) -> None:
    assert SCHEDULE.fullmatch(schedule)


def test_everybody_and_every_node_at_once_deserve_a_look(tmp_path: Path) -> None:
    config = base()
    both(kubernetes(public_access_cidrs=["0.0.0.0/0"]), updates(batch_percentage=100))(config)
    said = [str(warning) for warning in plan_file(write(tmp_path, config)).warnings]
    assert any("public_access_cidrs" in line and "whole internet" in line for line in said), said
    assert any("batch_percentage" in line and "every node" in line for line in said), said


def test_the_subnet_of_an_added_zone_is_locked_with_it() -> None:
    config = yaml.safe_load((ROOT / "config" / "existing.yaml").read_text())
    before = locked_values(ServingConfig.model_validate(config))
    config["zones"].append("us-west-2c")
    added = {"id": "subnet-0123456789abcdef2", "cidr": "10.1.128.0/18"}
    config["network"]["existing"]["private_subnets"].append(added)
    text = lock_text(ServingConfig.model_validate(config), before)
    assert added["id"] in yaml.safe_load(text)["network.existing"]
