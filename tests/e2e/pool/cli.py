"""Curvine's command line tool on the pool's own folder, for the bootstrap Job.

    python cli.py FOLDER --conf FILE fs COMMAND ...

Standard library only; what it makes has no age limit, as with the real tool and our configuration.
"""

import os
import shutil
import sys
from pathlib import Path

TTL_ATTRIBUTE = "user.kascade.ttl"


def main(folder: str, command: str, *words: str) -> None:
    """Do one command."""
    paths = [Path(f"{folder}{word}") for word in words if word.startswith("/")]
    if command == "stat":
        paths[0].stat()
        ages = TTL_ATTRIBUTE in os.listxattr(paths[0])
        print(f"Ttl action: {'Delete' if ages else 'None'}")
    elif command == "mkdir":
        paths[0].mkdir(parents=True)
    elif command == "rm":
        shutil.rmtree(paths[0])
    elif command == "mv":
        paths[0].rename(paths[1])
    elif command == "chmod":
        paths[0].chmod(int(words[0], 8))
    elif command == "touch":
        paths[0].touch()
    else:
        sys.exit(f"{command} is unknown")


if __name__ == "__main__":
    try:
        main(sys.argv[1], *sys.argv[5:])
    except OSError as error:
        sys.exit(str(error))
