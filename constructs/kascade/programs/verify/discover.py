"""Replicas by the name of a headless Service, which lists the ready ones and no other."""

from __future__ import annotations

import socket

from .target import Replica


def replicas_of(host: str, *, engine_port: int, lmcache_port: int) -> tuple[Replica, ...]:
    """Resolve a name to replicas, in the order of their addresses.

    Args:
        host: Name of the headless Service.
        engine_port: vLLM's port on each of them.
        lmcache_port: The LMCache server's HTTP port on each of them.

    Raises:
        OSError: The name has no address, as long as no replica is ready.
    """
    found = socket.getaddrinfo(host, engine_port, type=socket.SOCK_STREAM)
    addresses = sorted({str(entry[4][0]) for entry in found})
    return tuple(
        Replica(
            name=address,
            engine_url=f"http://{_literal(address)}:{engine_port}",
            lmcache_url=f"http://{_literal(address)}:{lmcache_port}",
        )
        for address in addresses
    )


def _literal(address: str) -> str:
    """Write an address as URLs do.

    >>> _literal("10.0.0.1"), _literal("fd00::1")
    ('10.0.0.1', '[fd00::1]')
    """
    return f"[{address}]" if ":" in address else address
