"""Middleware for vLLM: closes what ``--enable-scale-out`` opens beside ``/render``, ends silence.

vLLM imports it by `--middleware`, once in each API server process. Standard library only.
"""

from .middleware import SILENCE_SECONDS, Limits, LimitsError, closed

__all__ = ["SILENCE_SECONDS", "Limits", "LimitsError", "closed"]
