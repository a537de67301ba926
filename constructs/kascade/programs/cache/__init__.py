"""Module of LMCache's server: what cannot be opened goes, what is used stays, engines are counted.

The server imports it by ``--server-module``, LMCache's own way for modules of others. Standard
library and OpenTelemetry, which the server brings.
"""

from .module import build_server_modules

__all__ = ["build_server_modules"]
