"""``python3 -m janitor``, inside a pod or anywhere else."""

import sys

from .command import main

sys.exit(main(sys.argv[1:]))
