"""Synthesizes a checkout's app with cdk-nag's AWS Solutions rules beside the CDK's own validator.

Started by test_templates.py in a copy of the checkout. OPEN_BUCKET=1 adds a bucket that cdk-nag has
to complain about.
"""

import os
from pathlib import Path

import tools.node  # noqa: F401 - chooses the Node that jsii starts

import aws_cdk as cdk
import cdk_nag
from aws_cdk import aws_s3 as s3

import app
from kascade import plan_file


def main() -> None:
    """Build as app.py does, add the rules, synthesize."""
    root = cdk.App(outdir=os.environ["CDK_OUTDIR"])
    config = Path(root.node.get_context("config"))
    app.build(root, plan_file(config), manifests=Path("dist", "manifests"), folder=config.parent)
    if os.environ.get("OPEN_BUCKET"):
        s3.Bucket(cdk.Stack(root, "Open"), "Bucket")
    cdk.Validations.of(root).add_plugins(cdk_nag.AwsSolutionsChecks(root))
    root.synth()


if __name__ == "__main__":
    main()
