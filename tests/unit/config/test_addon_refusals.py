"""Errors about HyperPod's add-ons and Karpenter, with the sentence a person gets to read."""

from pathlib import Path

from kascade import plan_file
from tests.unit.config.builders import Edit, base, both, group, model, write
from tests.unit.rules.rows.addons import WORKSPACE, addons, crowded, karpenter, system


def test_karpenter_by_itself_is_no_mistake(tmp_path: Path) -> None:
    config = base()
    karpenter(config)
    plan = plan_file(write(tmp_path, config)).cluster
    assert plan.autoscaling is not None
    assert [pool.gpus for pool in plan.autoscaling.pools] == [2]
    assert [group.count for group in plan.groups] == [2]
    assert [group.count for group in plan.at_start.groups] == [0]


def test_the_rows_are_wrong_in_one_thing_only(tmp_path: Path) -> None:
    """With the error taken out, the same configurations are planned."""
    right: dict[str, Edit] = {
        "workspace": addons(observability_workspace_arn=WORKSPACE.format(region="us-west-2")),
        "features": addons(task_governance=True, training_operator=True),
        "operator": both(group(count=2), model(mode="operator", replicas=1)),
        "slots": both(crowded, system(count=3)),
    }
    for edit in right.values():
        config = base()
        edit(config)
        assert plan_file(write(tmp_path, config)).cluster.features is not None
