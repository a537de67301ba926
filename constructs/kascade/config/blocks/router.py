"""The router in front of a model's engines."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kascade.config.blocks.values import Block, Whole


class RouterConfig(Block):
    """What sends each request to a replica."""

    strategy: Literal["prefixaware", "kvaware", "session", "roundrobin"] = Field(
        default="prefixaware",
        description="prefixaware: the replica that likely holds the prefix, balanced by load. "
        "session: one replica per session id. roundrobin: in turn.",
    )
    request_timeout_seconds: Whole = Field(
        default=600,
        ge=10,
        le=3600,
        description="Longest that a streaming client waits for its first token, and from one token "
        "to the next; a stream that is silent for longer ends with an error. An answer that does "
        "not stream has longest_request_seconds alone.",
    )
    longest_request_seconds: Whole | None = Field(
        default=None,
        ge=10,
        le=86_400,
        description="Longest that a request may take as a whole, however its tokens flow; engines "
        "and routers that end let what they took go on for as long. Without it: that wait and the "
        "longest answer that max_model_len allows.",
    )
    max_payload_mib: Whole = Field(default=16, ge=1, le=512, description="Largest request body.")
