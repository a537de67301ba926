"""How many Lambda functions a deployment may run at once, by its templates alone.

A new account may run ten. A resource that CDK's provider framework answers for takes two, that one
and the function it calls; and the second is the one that is rejected for good.
"""

import copy
from collections.abc import Callable, Mapping

import pytest

from kascade.aws.manifests import MAX_AT_ONCE
from kascade.aws.timeouts import is_custom
from tests.contract.deploy_order import KUBECTL, MANIFEST, Assembly, Node, Resource
from tools.outputs import Outputs

Synthesized = Callable[[str], Outputs]

OF_A_NEW_ACCOUNT = 10


def functions_of(resource: Resource) -> int:
    """How many functions run while a resource is made or deleted."""
    if not is_custom(resource["Type"]):
        return 0
    token = str(resource["Properties"]["ServiceToken"])
    return 2 if resource["Type"] in KUBECTL or "frameworkonEvent" in token else 1


def most_at_once(assembly: Assembly, stack: str) -> int:
    """The most functions of one stack that nothing keeps apart.

    That is the largest set of resources none of which waits for another (Dilworth): as many as
    there are, less the most pairs of an earlier and a later one in which nobody stands twice on one
    side. A resource of two functions counts as two that do not wait for each other.
    """
    ones = [
        (node, place)
        for node, resource in assembly.resources.items()
        if node[0] == stack
        for place in range(functions_of(resource))
    ]
    nodes = {node for node, _ in ones}
    before: Mapping[Node, frozenset[Node]] = {node: assembly.before(node) & nodes for node in nodes}
    earlier = {one: [other for other in ones if other[0] in before[one[0]]] for one in ones}
    taken: dict[tuple[Node, int], tuple[Node, int]] = {}

    def pair(one: tuple[Node, int], seen: set[tuple[Node, int]]) -> bool:
        for other in earlier[one]:
            if other not in seen:
                seen.add(other)
                if other not in taken or pair(taken[other], seen):
                    taken[other] = one
                    return True
        return False

    pairs = sum(pair(one, set()) for one in ones)
    return len(ones) - pairs


def test_a_new_account_can_run_it(synthesized: Synthesized, config: str) -> None:
    assembly = Assembly.of(synthesized(config))
    most = {stack: most_at_once(assembly, stack) for stack in assembly.templates}
    assert max(most.values()) >= 2 * MAX_AT_ONCE
    assert {stack: n for stack, n in most.items() if n > OF_A_NEW_ACCOUNT} == {}


@pytest.mark.parametrize("stack", ["cluster", "serving"])
def test_whole_waves_at_once_would_not_do(synthesized: Synthesized, stack: str) -> None:
    whole = Assembly.of(synthesized("default"))
    loose = Assembly(templates=copy.deepcopy(whole.templates), stacks=whole.stacks)
    (template,) = (t for name, t in loose.templates.items() if name.endswith(stack))
    applied = {n for n, r in template["Resources"].items() if r["Type"] == MANIFEST}
    for name in applied:
        resource = template["Resources"][name]
        resource["DependsOn"] = [d for d in resource.get("DependsOn", ()) if d not in applied]
    (name,) = (n for n in loose.templates if n.endswith(stack))
    assert most_at_once(loose, name) > OF_A_NEW_ACCOUNT
