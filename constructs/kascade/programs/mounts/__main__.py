"""``python3 -m mounts``, beside the CSI driver."""

import sys

from .command import main

sys.exit(main(sys.argv[1:]))
