"""What HyperPod's Karpenter is told of each instance group."""

from __future__ import annotations

from constructs import Construct

from kascade.catalog.karpenter import (
    NODE_CLASS_GROUP,
    NODE_CLASS_KIND,
    NODE_CLASS_VERSION,
    NODE_POOL_VERSION,
)
from kascade.kube._labels import GPU_RESOURCE, INSTANCE_TYPE_LABEL, labels
from kascade.kube._objects import Fields, Metadata, add_object
from kascade.kube._pods import ZONE
from kascade.plan import NodePoolPlan


class GroupNodePool(Construct):
    """A node class that names one instance group, and the pool that fills it.

    One class for each group: a class takes ten groups, but taints, labels and bounds are a pool's,
    and ours differ by group.
    """

    def __init__(self, scope: Construct, construct_id: str, *, pool: NodePoolPlan) -> None:
        """Add both objects.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            pool: The plan's slice.
        """
        super().__init__(scope, construct_id)
        meta = Metadata(name=pool.group, labels=labels({}))
        add_object(
            self,
            api_version=NODE_CLASS_VERSION,
            kind=NODE_CLASS_KIND,
            meta=meta,
            body={"spec": {"instanceGroups": [pool.group]}},
        )
        add_object(
            self,
            api_version=NODE_POOL_VERSION,
            kind="NodePool",
            meta=meta,
            body={
                "spec": {
                    "template": {
                        "metadata": {"labels": dict(pool.labels)},
                        "spec": _node(pool),
                    },
                    "limits": {GPU_RESOURCE: str(pool.gpus)},
                    "disruption": {
                        # Moving an engine to fill another instance better costs its users more
                        # than the instance does, so only what is empty goes.
                        "consolidationPolicy": "WhenEmpty",
                        "consolidateAfter": f"{pool.empty_seconds}s",
                        "budgets": [{"nodes": str(pool.away_at_once)}],
                    },
                }
            },
        )


def _node(pool: NodePoolPlan) -> Fields:
    spec: dict[str, object] = {
        "nodeClassRef": {
            "group": NODE_CLASS_GROUP,
            "kind": NODE_CLASS_KIND,
            "name": pool.group,
        },
        # HyperPod renews the software of its nodes; age alone is no reason to lose an engine.
        "expireAfter": "Never",
        "requirements": [
            {"key": INSTANCE_TYPE_LABEL, "operator": "In", "values": list(pool.instance_types)},
            {"key": ZONE, "operator": "In", "values": [pool.zone]},
        ],
    }
    if pool.taints:
        spec["taints"] = [
            {"key": key, "effect": effect} | ({"value": value} if value else {})
            for key, value, effect in pool.taints
        ]
    return spec
