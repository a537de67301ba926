"""``python3 -m verify``, inside a pod or anywhere else."""

import sys

from .command import main

sys.exit(main())
