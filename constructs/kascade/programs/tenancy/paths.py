"""What an engine that keeps tenants apart answers at all; everything else is closed.

A list of what is open and not of what is closed: the next release of vLLM adds paths, and one that
takes a prompt without a salt would be a hole.
"""

from __future__ import annotations

from typing import Final

SALTED: Final = frozenset(
    {
        ("POST", "/v1/completions"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/chat/completions/batch"),
        ("POST", "/v1/responses"),
        ("POST", "/v1/messages"),
    }
)
"""Paths whose body takes a ``cache_salt`` (vLLM 0.32), and that clients use."""

OPEN: Final = frozenset(
    {
        ("GET", "/health"),
        ("GET", "/metrics"),
        ("GET", "/version"),
        ("GET", "/v1/models"),
        # They turn text into tokens and look into no cache. The router asks them on its own account
        # for each request, without the headers of the client.
        ("POST", "/tokenize"),
        ("POST", "/detokenize"),
        ("POST", "/v1/completions/render"),
        ("POST", "/v1/chat/completions/render"),
        ("POST", "/v1/responses/render"),
        ("POST", "/v1/messages/render"),
        ("POST", "/v1/messages/count_tokens"),
    }
)
"""Paths that need no tenant."""
