"""What every stack of a deployment has in common."""

import aws_cdk as cdk
from constructs import Construct

from kascade.plan import ServingPlan


class KascadeStack(cdk.Stack):
    """A stack in the plan's region and zones.

    The plan decides the zones, so a synthesis never asks AWS for them: ``cdk synth`` and
    ``cdk diff --template`` need no credentials. Without an account in the plan the template is
    good for any account, and the CLI deploys it into the one that its credentials belong to.

    Termination protection is off: everything a deployment holds is a cache, a copy of what git
    holds, or a log with a retention of its own.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, plan: ServingPlan, description: str
    ) -> None:
        self._zones = list(plan.network.zones)  # before super(), which may ask for the zones
        super().__init__(
            scope,
            construct_id,
            stack_name=construct_id,
            description=description,
            env=cdk.Environment(account=plan.account, region=plan.region),
            tags=dict(plan.tags),
            termination_protection=False,
            analytics_reporting=False,  # or every CDK release would change every template
        )

    @property
    def availability_zones(self) -> list[str]:
        """The plan's zones; the inherited property would look them up in AWS."""
        return list(self._zones)
