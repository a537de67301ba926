"""``python -m kascade.cli``."""

import sys

from kascade.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
