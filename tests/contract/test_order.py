"""Everything is made in an order in which nothing waits for what comes later.

The broken variants are templates as a careless change would leave them: each must be found.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tests.contract.deploy_order import (
    ADDON,
    BALANCER_DRAIN,
    EBS_DRIVER,
    EKS,
    HYPERPOD,
    INFERENCE,
    MANIFEST,
    NODEGROUP,
    Assembly,
    Node,
    awaits_pods,
    faults,
    kind_of,
)
from tools.outputs import Outputs

Synthesized = Callable[[str], Outputs]

LAYERS = (
    ("network", "EKS"),
    ("EKS", "access entry"),
    ("EKS", "early add-on"),
    ("early add-on", "system nodes"),
    ("system nodes", "HyperPod"),
    ("access entry", "HyperPod"),
)


def test_nothing_is_left_to_chance(synthesized: Synthesized, config: str) -> None:
    assert faults(Assembly.of(synthesized(config))) == []


def test_the_layers_of_a_cluster_come_in_their_order(synthesized: Synthesized, config: str) -> None:
    assembly = Assembly.of(synthesized(config))
    order = {node: place for place, node in enumerate(assembly.order())}
    assert order.keys() >= assembly.resources.keys()
    found: dict[str, list[int]] = {}
    for node, resource in assembly.resources.items():
        if not (kind_of(resource) == "network" and not node[0].endswith("-network")):
            found.setdefault(kind_of(resource), []).append(order[node])
    assert "HyperPod" in found or "EKS" not in found
    for earlier, later in LAYERS:
        if earlier in found and later in found:
            assert max(found[earlier]) < min(found[later]), (earlier, later)


def test_hyperpods_own_dependencies_are_applied_and_not_awaited(
    synthesized: Synthesized, config: str
) -> None:
    assembly = Assembly.of(synthesized(config))
    for cluster in assembly.find(lambda r: r["Type"] == HYPERPOD):
        before = assembly.before(cluster) & assembly.resources.keys()
        applied = [n for n in before if assembly.resources[n]["Type"] == MANIFEST]
        text = str([assembly.resources[n]["Properties"]["Manifest"] for n in applied])
        assert "health-monitoring-agent" in text
        assert "device-plugin" in text
        awaited = [n for n in before if n[0] == cluster[0] and awaits_pods(assembly.resources[n])]
        assert all(assembly.resources[n]["Type"] == ADDON for n in awaited)


# --- broken on purpose ----------------------------------------------------------------------------


def _only(assembly: Assembly, kind: str, **properties: str) -> Node:
    def wanted(resource: Any) -> bool:
        return resource["Type"] == kind and all(
            resource["Properties"].get(name) == value for name, value in properties.items()
        )

    (node,) = assembly.find(wanted)
    return node


def _forget(assembly: Assembly, node: Node, *words: str) -> None:
    """Take out of a DependsOn whatever has one of the words in its name."""
    resource = assembly.templates[node[0]]["Resources"][node[1]]
    kept = [name for name in resource["DependsOn"] if not any(word in name for word in words)]
    assert kept != resource["DependsOn"], "nothing to forget: the variant is no longer broken"
    resource["DependsOn"] = kept


def _hyperpod_without_the_platform(assembly: Assembly) -> str:
    _forget(assembly, _only(assembly, HYPERPOD), "Platform")
    return "does not wait for kascade-cluster/PlatformDaemonSetawshyperpodhealthmonitoringagent"


def _hyperpod_without_its_script(assembly: Assembly) -> str:
    _forget(assembly, _only(assembly, HYPERPOD), "Upload")
    return "does not wait for kascade-cluster/LifecycleUpload"


def _hyperpod_without_the_rules(assembly: Assembly) -> str:
    _forget(
        assembly,
        _only(assembly, HYPERPOD),
        "FromSystemNodes",
        "SystemNodes",
        "Addoncoredns",
        "Addonawsebs",
    )
    return "does not wait for kascade-cluster/EksFromSystemNodes"


def _names_before_nodes(assembly: Assembly) -> str:
    _forget(assembly, _only(assembly, ADDON, AddonName="coredns"), "SystemNodes")
    return "Addoncoredns"


def _nodes_before_their_network(assembly: Assembly) -> str:
    _forget(assembly, _only(assembly, NODEGROUP), "Addonvpccni")
    return "(system nodes) does not wait for kascade-cluster/EksAddonvpccni"


def _serving_without_the_cluster(assembly: Assembly) -> str:
    assembly.stacks["kascade-serving"] = ("kascade-network",)
    return "whose nodes it runs on"


def _a_release_that_waits_before_nodes(assembly: Assembly) -> str:
    template = assembly.templates["kascade-cluster"]["Resources"]
    template["Early"] = {
        "Type": "Custom::AWSCDK-EKS-HelmChart",
        "Properties": {"Wait": True, "ClusterName": {"Ref": _only(assembly, EKS)[1]}},
        "DependsOn": [
            name for name, item in template.items() if item["Type"] == "AWS::EKS::AccessEntry"
        ],
    }
    return "kascade-cluster/Early awaits pods, and no node is there before it"


def _a_cycle_in_a_stack(assembly: Assembly) -> str:
    cluster, nodes = _only(assembly, HYPERPOD), _only(assembly, NODEGROUP)
    assembly.templates[nodes[0]]["Resources"][nodes[1]]["DependsOn"].append(cluster[1])
    return "a cycle: "


def _a_cycle_of_stacks(assembly: Assembly) -> str:
    assembly.stacks["kascade-network"] = ("kascade-serving",)
    return "a cycle: "


@pytest.mark.parametrize(
    "breaking",
    [
        _hyperpod_without_the_platform,
        _hyperpod_without_its_script,
        _hyperpod_without_the_rules,
        _names_before_nodes,
        _nodes_before_their_network,
        _serving_without_the_cluster,
        _a_release_that_waits_before_nodes,
        _a_cycle_in_a_stack,
        _a_cycle_of_stacks,
    ],
)
def test_a_broken_order_is_found(
    synthesized: Synthesized, breaking: Callable[[Assembly], str]
) -> None:
    _breaks(Assembly.of(synthesized("default")), breaking)


def _balancers_after_their_controller(assembly: Assembly) -> str:
    _forget(assembly, _only(assembly, BALANCER_DRAIN), "Addonamazonsagemakerhyperpodinference")
    return "goes without a wait for the load balancers that it made"


def _no_wait_for_balancers(assembly: Assembly) -> str:
    stack, name = _only(assembly, BALANCER_DRAIN)
    del assembly.templates[stack]["Resources"][name]
    return "goes without a wait for the load balancers that it made"


def _endpoints_after_the_wait(assembly: Assembly) -> str:
    assembly.stacks["mixed-serving"] = ("mixed-network",)
    return "may go later than mixed-cluster/BalancerDrain"


@pytest.mark.parametrize(
    "breaking",
    [_balancers_after_their_controller, _no_wait_for_balancers, _endpoints_after_the_wait],
)
def test_load_balancers_left_to_nobody_are_found(
    synthesized: Synthesized, breaking: Callable[[Assembly], str]
) -> None:
    whole = Assembly.of(synthesized("operator"))
    addon = _only(whole, ADDON, AddonName=INFERENCE)
    assert addon in whole.before(_only(whole, BALANCER_DRAIN))
    _breaks(whole, breaking)


def _driver(assembly: Assembly) -> Node:
    return _only(assembly, ADDON, AddonName=EBS_DRIVER)


def _a_driver_without_its_rights(assembly: Assembly) -> str:
    _forget(assembly, _driver(assembly), "EbsCsiRoleDefaultPolicy")
    return "may outlive kascade-cluster/EksEbsCsiRoleDefaultPolicy"


def _a_driver_without_nodes(assembly: Assembly) -> str:
    _forget(assembly, _driver(assembly), "SystemNodes")
    return "may outlive kascade-cluster/EksSystemNodes"


def _volumes_after_their_driver(assembly: Assembly) -> str:
    assembly.stacks["kascade-serving"] = ("kascade-network",)
    return "StatefulSetkascadecachecurvinemaster"


def _hyperpod_after_the_driver(assembly: Assembly) -> str:
    _forget(assembly, _only(assembly, HYPERPOD), "Addonawsebscsidriver")
    return "so volumes have no time to go"


@pytest.mark.parametrize(
    "breaking",
    [
        _a_driver_without_its_rights,
        _a_driver_without_nodes,
        _volumes_after_their_driver,
        _hyperpod_after_the_driver,
    ],
)
def test_volumes_left_to_nobody_are_found(
    synthesized: Synthesized, breaking: Callable[[Assembly], str]
) -> None:
    _breaks(Assembly.of(synthesized("default")), breaking)


def _breaks(whole: Assembly, breaking: Callable[[Assembly], str]) -> None:
    broken = Assembly(templates=deepcopy(whole.templates), stacks=dict(whole.stacks))
    expected = breaking(broken)
    found = faults(Assembly(templates=broken.templates, stacks=broken.stacks))
    assert any(expected in fault for fault in found), found
