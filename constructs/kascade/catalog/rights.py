"""What CloudFormation has to be allowed: the first action by which each type of resource is made.

By stack and type, as the registry's schemas name them (``handlers.create.permissions``; a test
compares with cfn-lint's copy and with the templates). Types of the CDK's custom resources stand for
the Lambda function that makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

CREATE_ACTIONS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "network": MappingProxyType(
            {
                "AWS::EC2::EIP": "ec2:AllocateAddress",
                "AWS::EC2::FlowLog": "ec2:CreateFlowLogs",
                "AWS::EC2::InternetGateway": "ec2:CreateInternetGateway",
                "AWS::EC2::NatGateway": "ec2:CreateNatGateway",
                "AWS::EC2::Route": "ec2:CreateRoute",
                "AWS::EC2::RouteTable": "ec2:CreateRouteTable",
                "AWS::EC2::SecurityGroup": "ec2:CreateSecurityGroup",
                "AWS::EC2::SecurityGroupEgress": "ec2:AuthorizeSecurityGroupEgress",
                "AWS::EC2::SecurityGroupIngress": "ec2:AuthorizeSecurityGroupIngress",
                "AWS::EC2::Subnet": "ec2:CreateSubnet",
                "AWS::EC2::SubnetRouteTableAssociation": "ec2:AssociateRouteTable",
                "AWS::EC2::VPC": "ec2:CreateVpc",
                "AWS::EC2::VPCEndpoint": "ec2:CreateVpcEndpoint",
                "AWS::EC2::VPCGatewayAttachment": "ec2:AttachInternetGateway",
                "AWS::IAM::Policy": "iam:PutRolePolicy",
                "AWS::IAM::Role": "iam:CreateRole",
                "AWS::Lambda::Function": "lambda:CreateFunction",
                "AWS::Logs::LogGroup": "logs:CreateLogGroup",
            }
        ),
        "cluster": MappingProxyType(
            {
                "AWS::EC2::LaunchTemplate": "ec2:CreateLaunchTemplate",
                "AWS::EC2::SecurityGroup": "ec2:CreateSecurityGroup",
                "AWS::EC2::SecurityGroupEgress": "ec2:AuthorizeSecurityGroupEgress",
                "AWS::EC2::SecurityGroupIngress": "ec2:AuthorizeSecurityGroupIngress",
                "AWS::EKS::AccessEntry": "eks:CreateAccessEntry",
                "AWS::EKS::Addon": "eks:CreateAddon",
                "AWS::EKS::Cluster": "eks:CreateCluster",
                "AWS::EKS::Nodegroup": "eks:CreateNodegroup",
                "AWS::EKS::PodIdentityAssociation": "eks:CreatePodIdentityAssociation",
                "AWS::IAM::ManagedPolicy": "iam:CreatePolicy",
                "AWS::IAM::OIDCProvider": "iam:CreateOpenIDConnectProvider",
                "AWS::IAM::Policy": "iam:PutRolePolicy",
                "AWS::IAM::Role": "iam:CreateRole",
                "AWS::KMS::Key": "kms:CreateKey",
                "AWS::Lambda::Function": "lambda:CreateFunction",
                "AWS::Lambda::LayerVersion": "lambda:PublishLayerVersion",
                "AWS::Logs::LogGroup": "logs:CreateLogGroup",
                "AWS::S3::Bucket": "s3:CreateBucket",
                "AWS::S3::BucketPolicy": "s3:PutBucketPolicy",
                "AWS::SSM::Parameter": "ssm:PutParameter",
                "AWS::SageMaker::Cluster": "sagemaker:CreateCluster",
            }
        ),
        "serving": MappingProxyType({"AWS::IAM::Policy": "iam:PutRolePolicy"}),
        "observability": MappingProxyType(
            {
                "AWS::APS::RuleGroupsNamespace": "aps:CreateRuleGroupsNamespace",
                "AWS::APS::Scraper": "aps:CreateScraper",
                "AWS::APS::Workspace": "aps:CreateWorkspace",
                "AWS::EC2::SecurityGroup": "ec2:CreateSecurityGroup",
                "AWS::EC2::SecurityGroupEgress": "ec2:AuthorizeSecurityGroupEgress",
                "AWS::EC2::SecurityGroupIngress": "ec2:AuthorizeSecurityGroupIngress",
                "AWS::EC2::VPCEndpoint": "ec2:CreateVpcEndpoint",
                "AWS::Grafana::Workspace": "grafana:CreateWorkspace",
                "AWS::IAM::Policy": "iam:PutRolePolicy",
                "AWS::IAM::Role": "iam:CreateRole",
                "AWS::Lambda::Function": "lambda:CreateFunction",
                "AWS::Logs::LogGroup": "logs:CreateLogGroup",
            }
        ),
    }
)

ALWAYS: Final = (
    "cloudformation:CreateChangeSet",
    "cloudformation:DescribeStacks",
    "cloudformation:ExecuteChangeSet",
)
"""What the CDK does with the deploy role, or with the caller's own rights."""

BOOTSTRAP_ROLES: Final = ("deploy-role", "file-publishing-role", "lookup-role")
"""The roles of ``cdk bootstrap`` that the command line takes on (CDK guide, bootstrapping)."""

EXECUTION_ROLE: Final = "cfn-exec-role"
"""The one that CloudFormation takes on, by default an administrator."""


def bootstrap_role(kind: str, *, account: str, region: str) -> str:
    """Name a role of ``cdk bootstrap`` with the CDK's default qualifier.

    >>> bootstrap_role("deploy-role", account="111122223333", region="us-west-2")
    'cdk-hnb659fds-deploy-role-111122223333-us-west-2'
    """
    return f"cdk-hnb659fds-{kind}-{account}-{region}"
