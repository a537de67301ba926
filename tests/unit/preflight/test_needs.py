"""What a plan asks of an account, beside the templates that ask for it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import cfnlint
import pytest

from kascade import ServingPlan, plan_file
from kascade.catalog import quotas
from kascade.catalog.regions import EKS_REFUSED_ZONES, REGIONS
from kascade.catalog.rights import CREATE_ACTIONS
from kascade.config.blocks import SystemGroupConfig
from kascade.sizing.account import InstanceNeed, account_needs, all_addons, fill, images_of
from tools.outputs import Outputs

CONFIGS = ("closed", "default", "existing", "fleet", "operator")
ROOT = Path(__file__).parents[3]
SCHEMAS = Path(cfnlint.__file__).parent / "data" / "schemas"
INDEX = json.loads((SCHEMAS / "providers" / "us-west-2.json").read_text())
_OTHERS = {"AWS::CDK::Metadata", "AWS::CloudFormation::WaitConditionHandle"}


def resources(outputs: Outputs) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path in sorted(outputs.assembly.glob("*.template.json")):
        part = path.name.removesuffix(".template.json").rpartition("-")[2]
        for resource in json.loads(path.read_text())["Resources"].values():
            yield part, resource["Type"], resource.get("Properties", {})


@pytest.mark.parametrize("name", CONFIGS)
def test_needs_are_what_the_templates_make(
    name: str, plan: Callable[[str], ServingPlan], synthesized: Callable[[str], Outputs]
) -> None:
    needs = account_needs(plan(name))
    made = list(resources(synthesized(name)))
    count = Counter(kind for _, kind, _ in made)
    assert count["AWS::EC2::VPC"] == needs.vpcs
    assert count["AWS::EC2::EIP"] == needs.elastic_ips
    assert count["AWS::EC2::NatGateway"] == sum(needs.nat_gateways.values())
    interfaces = [
        json.dumps(properties["ServiceName"])
        for _, kind, properties in made
        if kind == "AWS::EC2::VPCEndpoint" and properties.get("VpcEndpointType") == "Interface"
    ]
    assert len(interfaces) == len(needs.services)
    assert all(any(f".{service}" in name for name in interfaces) for service in needs.services)
    groups = [
        group
        for _, kind, properties in made
        if kind == "AWS::SageMaker::Cluster"
        for group in properties["InstanceGroups"]
    ]
    assert sum(int(group["InstanceCount"]) for group in groups) == needs.in_cluster
    addons = {p["AddonName"] for _, kind, p in made if kind == "AWS::EKS::Addon"}
    assert addons == {addon.name for addon in all_addons(plan(name))}


@pytest.mark.parametrize("name", CONFIGS)
def test_every_image_that_is_pulled_is_asked_for(
    name: str, plan: Callable[[str], ServingPlan], synthesized: Callable[[str], Outputs]
) -> None:
    named: set[str] = set()

    def look(value: Any) -> None:
        if isinstance(value, dict):
            named.update(v for k, v in value.items() if k == "image" and isinstance(v, str))
            for inner in value.values():
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    for _, thing in synthesized(name).objects():
        look(thing)
    assert set(images_of(plan(name))) == named


@pytest.mark.parametrize("name", CONFIGS)
def test_every_type_has_the_action_that_makes_it(
    name: str, synthesized: Callable[[str], Outputs]
) -> None:
    for part, kind, _ in resources(synthesized(name)):
        if kind.startswith("AWS::") and kind not in _OTHERS:
            assert kind in CREATE_ACTIONS[part]


def test_actions_are_those_of_the_registry() -> None:
    for actions in CREATE_ACTIONS.values():
        for kind, action in actions.items():
            schema = json.loads((SCHEMAS / "resources" / f"{INDEX[kind]}.json").read_text())
            handlers = schema.get("handlers", {})
            allowed = {p.lower() for p in handlers.get("create", {}).get("permissions", [])}
            # Types of before the registry say nothing.
            if allowed:
                assert action.lower() in allowed, (kind, sorted(allowed))


def test_what_the_templates_ask_of_the_bootstrap(synthesized: Callable[[str], Outputs]) -> None:
    manifest = json.loads((synthesized("default").assembly / "manifest.json").read_text())
    for artifact in manifest["artifacts"].values():
        properties = artifact.get("properties", {})
        wanted = properties.get("requiresBootstrapStackVersion")
        assert wanted in {None, quotas.BOOTSTRAP_VERSION}
        where = properties.get("bootstrapStackVersionSsmParameter")
        assert where in {None, quotas.BOOTSTRAP_PARAMETER}
        lookup = properties.get("lookupRole", {}).get("requiresBootstrapStackVersion")
        assert lookup in {None, quotas.BOOTSTRAP_LOOKUP_VERSION}


def test_every_type_of_system_nodes_has_its_vcpus() -> None:
    types = get_args(SystemGroupConfig.model_fields["instance_type"].annotation)
    assert set(quotas.SYSTEM_VCPUS) == set(types)
    assert all(kind[0] in quotas.STANDARD_FAMILIES for kind in types)


def test_refused_zones_are_of_known_regions() -> None:
    assert set(EKS_REFUSED_ZONES) <= set(REGIONS)


def test_who_has_no_choice_is_served_first() -> None:
    def need(group: str, *types: str) -> InstanceNeed:
        return InstanceNeed(group=group, types=types, count=2, spot=False, at_most=False)

    wide, narrow = need("wide", "x", "y"), need("narrow", "x")
    served = {f.need.group: f for f in fill((wide, narrow), {"x": 2, "y": 2})}
    assert (served["narrow"].missing, served["wide"].missing) == (0, 0)
    assert served["wide"].short == ("x",)
    # Others may use more than the quota, and a type without one has no bound.
    assert fill((narrow,), {"x": -3})[0].given == 0
    assert fill((narrow,), {})[0].missing == 0


def test_the_plan_warns_where_one_zone_takes_no_eks(tmp_path: Path) -> None:
    text = (ROOT / "config" / "default.yaml").read_text()
    config = tmp_path / "east.yaml"
    for region, warned in (("us-east-1", True), ("us-east-2", False)):
        config.write_text(text.replace("us-west-2", region))
        warnings = [w for w in plan_file(config).warnings if w.path == ("zones",)]
        assert bool(warnings) == warned
        for warning in warnings:
            assert "use1-az3" in warning.message
            assert "us-east-1a and us-east-1b" in warning.message
