"""What makes a deletion that failed fail: CDK's own function reports every one as done."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

_LAYER: Final = Path(__file__).parent.parent / "handlers" / "checked_deletion"


def check_deletions(scope: Construct, handler: lambda_.Function) -> None:
    """Put a look at what is left behind each deletion of CDK's kubectl function.

    The program comes as a layer, and is called in the place of the CDK's own, which it calls: so
    that one stays as the library brings it.

    Args:
        scope: Parent construct; gets ``CheckedDeletion``.
        handler: The CDK's kubectl function.
    """
    layer = lambda_.LayerVersion(
        scope,
        "CheckedDeletion",
        code=lambda_.Code.from_asset(
            str(_LAYER), exclude=["__pycache__", "**/__pycache__", "__init__.py", "*.pyc"]
        ),
        description="Looks whether what was deleted is gone",
    )
    handler.add_layers(layer)
    cast("lambda_.CfnFunction", handler.node.default_child).handler = "checked_deletion.handler"
