"""Resource types of our templates that the emulator lacks, a few lines each.

To add one: its `Ref` as text with fields in braces, and what `Fn::GetAtt` may ask for. Fields are
`region`, `account`, `properties[X]`, `hex`, `short`, `uuid` and `address`, these four different for
each resource; in an attribute also `ref`. All else about a type, what it takes and what replaces
it, is the registry's to say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FakedType:
    """How a resource of one type is called.

    Attributes:
        ref: Its physical id.
        attributes: What `Fn::GetAtt` answers.
        defaults: Properties that AWS fills in where the template has none.
    """

    ref: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)


FAKED_TYPES: Mapping[str, FakedType] = {
    "AWS::APS::RuleGroupsNamespace": FakedType(
        ref="arn:aws:aps:{region}:{account}:rulegroupsnamespace/ws-{uuid}/{properties[Name]}",
        attributes={"Arn": "{ref}"},
    ),
    "AWS::APS::Scraper": FakedType(
        ref="arn:aws:aps:{region}:{account}:scraper/s-{uuid}",
        attributes={
            "Arn": "{ref}",
            "ScraperId": "s-{uuid}",
            "RoleArn": "arn:aws:iam::{account}:role/aws-service-role/scraper.aps.amazonaws.com/"
            "AWSServiceRoleForAmazonPrometheusScraper_{short}",
        },
    ),
    "AWS::APS::Workspace": FakedType(
        ref="arn:aws:aps:{region}:{account}:workspace/ws-{uuid}",
        attributes={
            "Arn": "{ref}",
            "WorkspaceId": "ws-{uuid}",
            "PrometheusEndpoint": "https://aps-workspaces.{region}.amazonaws.com/workspaces/"
            "ws-{uuid}/",
        },
    ),
    "AWS::EC2::EIP": FakedType(
        ref="{address}",
        attributes={"AllocationId": "eipalloc-{hex}", "PublicIp": "{ref}"},
    ),
    "AWS::EC2::FlowLog": FakedType(ref="fl-{hex}", attributes={"Id": "{ref}"}),
    "AWS::EC2::NatGateway": FakedType(ref="nat-{hex}", attributes={"NatGatewayId": "{ref}"}),
    "AWS::EC2::SecurityGroupEgress": FakedType(ref="sgr-{hex}", attributes={"Id": "{ref}"}),
    "AWS::EC2::SecurityGroupIngress": FakedType(ref="sgr-{hex}", attributes={"Id": "{ref}"}),
    "AWS::EKS::AccessEntry": FakedType(
        ref="{properties[PrincipalArn]}|{properties[ClusterName]}",
        attributes={"AccessEntryArn": "arn:aws:eks:{region}:{account}:access-entry/{uuid}"},
    ),
    "AWS::EKS::Addon": FakedType(
        ref="{properties[ClusterName]}|{properties[AddonName]}",
        attributes={
            "Arn": "arn:aws:eks:{region}:{account}:addon/{properties[ClusterName]}/"
            "{properties[AddonName]}/{uuid}"
        },
    ),
    "AWS::Grafana::Workspace": FakedType(
        ref="g-{short}",
        attributes={
            "Id": "{ref}",
            "Endpoint": "{ref}.grafana-workspace.{region}.amazonaws.com",
            "GrafanaVersion": "{properties[GrafanaVersion]}",
            "Status": "ACTIVE",
        },
        defaults={"GrafanaVersion": "12.4"},
    ),
    "AWS::SageMaker::Cluster": FakedType(
        ref="arn:aws:sagemaker:{region}:{account}:cluster/{short}",
        attributes={"ClusterArn": "{ref}", "ClusterStatus": "InService"},
    ),
}

ANNOUNCED: Mapping[str, str] = {
    "AWS::EKS::Nodegroup": "REHEARSAL_NODES_URL",
    "AWS::SageMaker::Cluster": "REHEARSAL_NODES_URL",
    "AWS::Grafana::Workspace": "REHEARSAL_WORKSPACES_URL",
}
"""Types with consequences elsewhere, and the variable that says who brings these about."""
