"""The ``kascade`` command."""

from kascade.cli.main import main

__all__ = ["main"]
