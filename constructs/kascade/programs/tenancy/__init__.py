"""Middleware for vLLM that keeps tenants apart: the server, never the client, sets the cache salt.

vLLM imports it by `--middleware`, once in each API server process. Standard library only.
"""

from .middleware import TenantSalt
from .settings import SettingsError

__all__ = ["SettingsError", "TenantSalt"]
