"""What a cluster waits for before the controller of its load balancers goes."""

from __future__ import annotations

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from kascade.aws._waiter import Waiter


class BalancerDrain(Waiter):
    """At deletion, waits until nothing of a cluster's controller is left in its VPC.

    The AWS Load Balancer Controller deletes load balancers after the objects that asked for them,
    and their security groups after that; once it is gone itself, nobody does. The wait is bounded;
    what is left then is named, one by one, in the reason of the failure, and the controller is
    still there. Creation and updates return at once.

    It deletes nothing: the controller would make again what an object still asks for.
    """

    def __init__(  # noqa: PLR0913 - where to look, and what to stand before
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        vpc_id: str,
        controller: IDependable,
        log_retention_days: int,
    ) -> None:
        """Watch one cluster's load balancers and their security groups.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            cluster: Whose name the controller puts into its tag.
            vpc_id: Where they are looked for.
            controller: What installs the controller; it stays until all that is gone.
            log_retention_days: Of the logs of both functions.
        """
        super().__init__(
            scope,
            construct_id,
            program="balancer_drain",
            description="Waits for load balancers to go before the controller that made them",
            role_description="Looks for load balancers of one EKS cluster being deleted",
            rights=[
                iam.PolicyStatement(
                    actions=[
                        "ec2:DescribeSecurityGroups",
                        "elasticloadbalancing:DescribeLoadBalancers",
                        "elasticloadbalancing:DescribeTags",
                    ],
                    resources=["*"],
                )
            ],
            wildcards=["*"],
            wildcards_reason="All three calls look, and know no resource.",
            resource_type="Custom::BalancerDrain",
            properties={"VpcId": vpc_id, "ClusterName": cluster.cluster_name},
            log_retention_days=log_retention_days,
        )
        self.resource.node.add_dependency(controller)
