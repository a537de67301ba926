"""An account's own list of which zone offers which type, and the sentence for each error."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import botocore.session
import pytest

from kascade import InvalidConfigError, ServingConfig, plan_file, plan_serving
from kascade.cli.main import main
from kascade.config.zone_offerings import command, parse_zone_offerings
from tests.unit.config.builders import Edit, base, codes_of, group, problems_of, top, write
from tests.unit.rules.rows.offerings import (
    EVERYWHERE,
    G6E,
    GPUS,
    ONE,
    SYSTEM,
    TYPE,
    ZONE,
    answer,
    edited,
    save,
    types,
    zones,
)


def test_each_mistake_has_its_sentence_at_once(tmp_path: Path) -> None:
    config = edited(group(zone="us-west-2b"))
    config["instance_groups"].append(
        {"name": "more", "instance_type": "ml.g6e.12xlarge", "count": 1}
    )
    config["models"][0]["instance_group"] = "gpu"
    save(tmp_path, answer({**EVERYWHERE, **GPUS, "m7i.xlarge": "a"}))
    found = [text.split(": ")[1] for text in problems_of(write(tmp_path, config))]
    assert found == [SYSTEM, ZONE, "instance_groups[1].zone"]


def test_a_zone_that_does_not_exist_keeps_its_one_sentence(tmp_path: Path) -> None:
    save(tmp_path, answer({**EVERYWHERE, **GPUS}))
    assert codes_of(write(tmp_path, edited(zones("abx")))) == [("zones[2]", "unknown-zone")]


def refused(folder: Path, words: str) -> None:
    (found,) = problems_of(write(folder, edited()))
    assert re.match(r"line \d+: zone_offerings: ", found), found
    assert re.search(words, found), found
    assert found.isprintable(), found
    assert str(folder) not in found


def test_a_path_that_names_the_folder_itself(tmp_path: Path) -> None:
    config = edited(top(zone_offerings=""))
    (found,) = problems_of(write(tmp_path, config))
    assert "zone_offerings: . is a folder" in found


def test_a_path_that_only_this_machine_has(tmp_path: Path) -> None:
    save(tmp_path, answer({**EVERYWHERE, "g6e.4xlarge": "ab"}))
    config = edited(top(zone_offerings=str(tmp_path / "offerings.json")))
    (found,) = problems_of(write(tmp_path, config))
    assert "is an absolute path, which another machine does not have; keep the file" in found


def test_a_broken_file_hides_no_other_mistake(tmp_path: Path) -> None:
    save(tmp_path, "{")
    assert codes_of(write(tmp_path, edited(group(zone="us-west-2c")))) == [
        ("instance_groups[0].zone", "zone-of-a-group"),
        ("zone_offerings", "zone-offerings-file"),
    ]


ADVISED: dict[str, tuple[Edit, Mapping[str, Iterable[str]], list[str]]] = {
    "all offered everywhere": (top(), {"g6e.4xlarge": "ab"}, []),
    "offered in the group's zone": (group(zone="us-west-2a"), {"g6e.4xlarge": "a"}, []),
    "one home zone": (
        top(),
        {"g6e.4xlarge": "bc"},
        [
            (
                f"{TYPE}: of the home zones us-west-2a and us-west-2b only us-west-2b offers {G6E} "
                "(offerings.json), so all instances of 'gpu' come from there"
            )
        ],
    ),
    "some types in the group's zone": (
        types(G6E, "ml.g6e.8xlarge", zone="us-west-2a"),
        {"g6e.8xlarge": "a", "g6e.4xlarge": "b"},
        [
            (
                f"{TYPE}s: {G6E} is not offered in us-west-2a (offerings.json), so HyperPod takes "
                "only ml.g6e.8xlarge there"
            )
        ],
    ),
    "each home zone another type": (
        types(G6E, "ml.g6e.8xlarge"),
        {"g6e.8xlarge": "a", "g6e.4xlarge": "b"},
        [],
    ),
    "one type in one home zone": (
        types(G6E, "ml.g6e.8xlarge"),
        {"g6e.8xlarge": "a", "g6e.4xlarge": "d"},
        [
            (
                f"{TYPE}s: {G6E} is not offered in us-west-2a and us-west-2b (offerings.json), so "
                "HyperPod takes only ml.g6e.8xlarge there"
            ),
            (
                f"{TYPE}s: of the home zones us-west-2a and us-west-2b only us-west-2a offers "
                "ml.g6e.8xlarge (offerings.json), so all instances of 'gpu' come from there"
            ),
        ],
    ),
}


@pytest.mark.parametrize("name", ADVISED)
def test_what_narrows_the_choice_is_in_the_plan(tmp_path: Path, name: str) -> None:
    edit, offered, expected = ADVISED[name]
    save(tmp_path, answer({**EVERYWHERE, **offered}))
    plan = plan_file(write(tmp_path, edited(edit)))
    assert [str(w) for w in plan.warnings if "offerings.json" in str(w)] == expected


def test_the_file_changes_nothing_that_is_deployed(tmp_path: Path) -> None:
    save(tmp_path, {**answer({**EVERYWHERE, "g6e.4xlarge": "ab"}), "ResponseMetadata": {}})
    with_file = plan_file(write(tmp_path, edited()))
    assert with_file == plan_file(write(tmp_path, base()))


def test_instances_that_are_there_are_not_compared(tmp_path: Path) -> None:
    save(tmp_path, answer({**EVERYWHERE, "g6e.4xlarge": "d"}))
    config = edited(
        top(
            network={
                "existing": {
                    "vpc_id": "vpc-0123456789abcdef0",
                    "private_subnets": [
                        {"id": "subnet-00000000000000001", "cidr": "10.0.0.0/19"},
                        {"id": "subnet-00000000000000002", "cidr": "10.0.32.0/19"},
                    ],
                }
            },
            kubernetes={
                "existing": {"name": "platform", "security_group_id": "sg-0123456789abcdef0"}
            },
        )
    )
    (found,) = problems_of(write(tmp_path, config))
    assert f"{ZONE}: " in found
    arn = "arn:aws:sagemaker:us-west-2:111122223333:cluster/0a1b2c3d4e5f"
    config["hyperpod"] = {"existing": {"cluster_arn": arn}}
    assert plan_file(write(tmp_path, config)).name == "demo"


def test_the_lock_reads_the_same(tmp_path: Path) -> None:
    save(tmp_path, answer({**EVERYWHERE, "g6e.4xlarge": "ab"}))
    path = write(tmp_path, edited())
    assert main(["lock", str(path)]) == 0
    assert "offerings" not in path.with_suffix(".lock").read_text()
    save(tmp_path, answer({**EVERYWHERE, "g6e.4xlarge": "bc"}))
    assert plan_file(path).name == "demo"


def test_who_plans_without_a_file_hands_the_list_on() -> None:
    config = ServingConfig.model_validate(edited())
    with pytest.raises(InvalidConfigError, match=r"zone_offerings: what is in this file is not"):
        plan_serving(config)
    content = answer({**EVERYWHERE, "g6e.4xlarge": "d"})
    file = parse_zone_offerings(content, source="the account", region="us-west-2")
    with pytest.raises(InvalidConfigError, match=r"zone: ml\.g6e\.4xlarge .*\(the account\)"):
        plan_serving(config, zone_offerings=file)


def test_the_command_and_its_answer_are_those_of_ec2() -> None:
    service = botocore.session.get_session().get_service_model("ec2")
    operation = service.operation_model("DescribeInstanceTypeOfferings")
    given = operation.input_shape.members["LocationType"].enum
    assert "availability-zone" in given
    assert "describe-instance-type-offerings --location-type availability-zone " in command("x")
    offers = operation.output_shape.members["InstanceTypeOfferings"].member
    assert set(operation.output_shape.members) == {"InstanceTypeOfferings", "NextToken"}
    assert set(offers.members) == set(ONE)
