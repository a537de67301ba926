"""An account's own list of which zone offers which type, and the sentence for each mistake."""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from kascade import InvalidConfigError, ServingConfig, plan_file, plan_serving
from kascade.cli.main import main
from kascade.config.zone_offerings import MAX_FILE_BYTES, command, parse_zone_offerings
from tests.unit.config.test_invariants import (
    DIRECTORY,
    Edit,
    base,
    both,
    group,
    problems_of,
    top,
    write,
)

EVERYWHERE = {"m7i.xlarge": "abcd", "m5.xlarge": "abcd", "m5.2xlarge": "abcd"}
GPUS = {"g6e.4xlarge": "ac", "g6e.8xlarge": "a", "g6e.12xlarge": "d"}


def answer(zones: Mapping[str, Iterable[str]], *, region: str = "us-west-2") -> dict[str, Any]:
    """What the account says, made of the ends of the names of each type's zones."""
    return {
        "InstanceTypeOfferings": [
            {
                "InstanceType": kind,
                "LocationType": "availability-zone",
                "Location": f"{region}{end}",
            }
            for kind, ends in zones.items()
            for end in ends
        ]
    }


def save(folder: Path, content: object) -> None:
    text = content if isinstance(content, str) else json.dumps(content, indent=4)
    (folder / "offerings.json").write_text(text)


def types(*names: str, zone: str | None = None) -> Edit:
    return group(instance_type=None, instance_types=list(names), zone=zone)


def zones(letters: str) -> Edit:
    return top(zones=[f"us-west-2{letter}" for letter in letters])


def edited(*edits: Edit) -> dict[str, Any]:
    config = base()
    both(top(zone_offerings="offerings.json"), *edits)(config)
    return config


G6E = "ml.g6e.4xlarge"
ZONE, TYPE = "instance_groups[0].zone", "instance_groups[0].instance_type"
SYSTEM = "kubernetes.system_group.instance_type"

UNOFFERED: dict[str, tuple[Edit, Mapping[str, Iterable[str]], str, str]] = {
    "zone without the type": (
        both(zones("abc"), group(zone="us-west-2b")),
        GPUS,
        ZONE,
        (
            r"ml\.g6e\.4xlarge is not offered in us-west-2b \(offerings\.json\); name us-west-2a "
            r"or us-west-2c of `zones`, or another type$"
        ),
    ),
    "zone with none of the types": (
        types(G6E, "ml.g6e.8xlarge", zone="us-west-2b"),
        GPUS,
        ZONE,
        (
            r"none of ml\.g6e\.4xlarge, ml\.g6e\.8xlarge is offered in us-west-2b .*; name "
            r"us-west-2a of `zones`, or another type$"
        ),
    ),
    "type in a zone that the deployment lacks": (
        group(zone="us-west-2b"),
        {"g6e.4xlarge": "cd"},
        ZONE,
        r"add us-west-2c or us-west-2d at the end of `zones` and name it here, or another type$",
    ),
    "type in a zone for which there is no room": (
        both(
            top(
                region="us-east-1",
                zones=[f"us-east-1{letter}" for letter in "abcd"],
            ),
            group(zone="us-east-1b"),
        ),
        {"g6e.4xlarge": "f"},
        ZONE,
        r"only us-east-1f would do, but `zones` is full; choose another type$",
    ),
    "type in no zone": (
        group(zone="us-west-2b"),
        {"g6.xlarge": "ab"},
        ZONE,
        r"no other zone of us-west-2 would do; choose another type$",
    ),
    "type in a local zone only": (
        group(zone="us-west-2b"),
        {"g6e.4xlarge": ["-lax-1a"]},
        ZONE,
        r"no other zone of us-west-2 would do",
    ),
    "group without a zone, type in no home zone": (
        zones("abd"),
        {"g6e.4xlarge": "d"},
        ZONE,
        (
            r"not offered in the home zones us-west-2a and us-west-2b, where groups without a zone "
            r"stand \(offerings\.json\); name us-west-2d of `zones`, or another type$"
        ),
    ),
    "Karpenter's group": (
        both(
            group(zone="us-west-2b"),
            top(hyperpod={"autoscaling": "karpenter"}, cache={"l2": DIRECTORY}),
        ),
        GPUS,
        ZONE,
        r"ml\.g6e\.4xlarge is not offered in us-west-2b",
    ),
    "Karpenter's group without a zone": (
        top(hyperpod={"autoscaling": "karpenter"}, cache={"l2": DIRECTORY}),
        {"g6e.4xlarge": "d"},
        ZONE,
        r"names none, and Karpenter wants",
    ),
    "system nodes in one home zone": (
        top(),
        {**GPUS, "m7i.xlarge": "ac", "m5.2xlarge": "a"},
        SYSTEM,
        (
            r"m7i\.xlarge is not offered in us-west-2b .* both home zones offer their type; "
            r"use m5\.xlarge$"
        ),
    ),
    "system nodes in other zones": (
        top(),
        {**GPUS, "g6e.4xlarge": "ab", "m7i.xlarge": "cd", "m5.2xlarge": "a", "m5.xlarge": "a"},
        SYSTEM,
        (
            r"not offered in us-west-2a and us-west-2b .*begin `zones` with two of us-west-2c, "
            r"us-west-2d$"
        ),
    ),
    "system nodes nowhere": (
        top(),
        {"g6e.4xlarge": "ab", "m7i.xlarge": "", "m5.2xlarge": "a", "m5.xlarge": "a"},
        SYSTEM,
        r"begin `zones` with two that offer one of m7i\.xlarge, m5\.xlarge, m5\.2xlarge$",
    ),
    "zone that the account lacks": (
        both(zones("abd"), group(zone="us-west-2d")),
        {"g6e.4xlarge": "abc", **dict.fromkeys(EVERYWHERE, "abc")},
        "zones[2]",
        (
            r"offerings\.json lists no offering in us-west-2d, so the account has no such zone; it "
            r"has us-west-2a, us-west-2b, us-west-2c\. Name one of these, or save the file again"
        ),
    ),
}


@pytest.mark.parametrize("name", UNOFFERED)
def test_a_type_that_is_not_offered_is_one_sentence(tmp_path: Path, name: str) -> None:
    edit, offered, path, words = UNOFFERED[name]
    config = edited(edit)
    save(tmp_path, answer({**EVERYWHERE, **offered}, region=config["region"]))
    found = problems_of(write(tmp_path, config))
    assert len(found) == 1, found
    assert re.fullmatch(rf"line \d+: {re.escape(path)}: .*", found[0]), found[0]
    assert re.search(words, found[0]), found[0]


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
    (found,) = problems_of(write(tmp_path, edited(zones("abx"))))
    assert "'us-west-2x' is no zone of us-west-2" in found


ONE = answer({"g6e.4xlarge": "a"})["InstanceTypeOfferings"][0]


def listed(**changes: object) -> dict[str, Any]:
    return {"InstanceTypeOfferings": [ONE, {**ONE, **changes}]}


UNUSABLE: dict[str, tuple[object, str]] = {
    "empty file": ("", r"offerings\.json is not valid JSON: Expecting value in its line 1"),
    "a table": ("-----\n|Describe", r"offerings\.json is not valid JSON"),
    "too deep": ("[" * 100_000, r"nested too deeply for a list of instance type offerings"),
    "a number without end": ("9" * 5000, r"offerings\.json cannot be read as JSON: Exceeds"),
    "a bare list": ([ONE], r"has no list InstanceTypeOfferings at its top; save what `aws ec2"),
    "another answer": (
        {"InstanceTypes": [{"InstanceType": "g6e.4xlarge"}]},
        (
            r"has no list InstanceTypeOfferings at its top; save what `aws ec2 describe-instance-"
            r"type-offerings --location-type availability-zone --region us-west-2 --output json` "
            r"writes"
        ),
    ),
    "no offering": (answer({}), r"lists no offering at all; .*without a filter"),
    "the first page": (
        {**answer({"g6e.4xlarge": "ab"}), "NextToken": "eyJ"},
        r"ends with a NextToken, .*without --max-items and --no-paginate",
    ),
    "by region": (
        listed(LocationType="region", Location="us-west-2"),
        (
            r"InstanceTypeOfferings\[1\] has LocationType 'region', and only availability-zone "
            r"can be compared with `zones`; save it again with --location-type availability-zone"
        ),
    ),
    "by zone id": (
        listed(LocationType="availability-zone-id", Location="usw2-az1"),
        r"LocationType 'availability-zone-id'",
    ),
    "a place that is no zone": (
        listed(Location="\x1b[2J" * 30),
        r"InstanceTypeOfferings\[1\] has Location '\\x1b\[2J.{20,80}\.\.\.', which is no zone such",
    ),
    "no type": (listed(InstanceType=None), r"InstanceTypeOfferings\[1\] has no text in Instance"),
    "names alone": (
        {"InstanceTypeOfferings": ["g6e.4xlarge"]},
        r"InstanceTypeOfferings\[0\] has no text in InstanceType; .*without --query",
    ),
    "another region": (
        answer({"g6e.4xlarge": "abcdef"}, region="us-east-1"),
        (
            r"lists us-east-1a, .*us-east-1f, and none of this deployment's zones \(us-west-2a, "
            r"us-west-2b\); save what `aws .*--region us-west-2"
        ),
    ),
    "too large": (
        " " * (MAX_FILE_BYTES + 1),
        r"offerings\.json has more than 5,000,000 bytes; this is no list of instance type",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_file_that_is_no_such_list_is_one_sentence(tmp_path: Path, name: str) -> None:
    content, words = UNUSABLE[name]
    save(tmp_path, content)
    refused(tmp_path, words)


def refused(folder: Path, words: str) -> None:
    (found,) = problems_of(write(folder, edited()))
    assert re.match(r"line \d+: zone_offerings: ", found), found
    assert re.search(words, found), found
    assert found.isprintable(), found
    assert str(folder) not in found


UNREADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no file": (
        Path.exists,
        (
            r"there is no list of instance type offerings offerings\.json; check the path \(it "
            r"counts from the folder of the configuration file\)"
        ),
    ),
    "a folder": (Path.mkdir, r"offerings\.json is a folder; name the list"),
    "a pipe": (os.mkfifo, r"offerings\.json is a pipe that may never end; name a file$"),
    "a link to nothing": (lambda path: path.symlink_to("gone"), r"there is no list"),
    "a link to itself": (lambda path: path.symlink_to(path), r"offerings\.json cannot be read: "),
    "PowerShell's encoding": (
        lambda path: path.write_bytes(b"\xff\xfe{\x00"),
        r"offerings\.json is not UTF-8 text \(byte 0\); save it as UTF-8",
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, name: str) -> None:
    make, words = UNREADABLE[name]
    make(tmp_path / "offerings.json")
    refused(tmp_path, words)


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
    first, second = problems_of(write(tmp_path, edited(group(zone="us-west-2c"))))
    assert "'us-west-2c' is not among this deployment's zones" in first
    assert "zone_offerings: offerings.json is not valid JSON" in second


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
