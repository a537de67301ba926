"""Replicas by the name of a headless Service, which lists the ready ones and no other."""

from __future__ import annotations

import socket

from .client import UnreachableError, get_object
from .target import Replica


def replicas_of(host: str, *, engine_port: int, lmcache_port: int) -> tuple[Replica, ...]:
    """Resolve a name to replicas, in the order of their addresses.

    Each is named as its LMCache server was started, which in a cluster is its pod's name, or by its
    address where that server does not tell.

    Args:
        host: Name of the headless Service.
        engine_port: vLLM's port on each of them.
        lmcache_port: The LMCache server's HTTP port on each of them.

    Raises:
        OSError: The name has no address, as long as no replica is ready.
    """
    found = socket.getaddrinfo(host, engine_port, type=socket.SOCK_STREAM)
    addresses = sorted({str(entry[4][0]) for entry in found})
    urls = {address: f"http://{_literal(address)}:{lmcache_port}" for address in addresses}
    names = [_name(url) or address for address, url in urls.items()]
    if len(set(names)) < len(names):
        names = addresses
    return tuple(
        Replica(
            name=name,
            engine_url=f"http://{_literal(address)}:{engine_port}",
            lmcache_url=urls[address],
        )
        for name, address in zip(names, addresses, strict=True)
    )


def _name(url: str) -> str:
    try:
        return str(get_object(f"{url}/config").get("mp", {}).get("instance_id", ""))
    except (UnreachableError, AttributeError):
        return ""


def _literal(address: str) -> str:
    """Write an address as URLs do.

    >>> _literal("10.0.0.1"), _literal("fd00::1")
    ('10.0.0.1', '[fd00::1]')
    """
    return f"[{address}]" if ":" in address else address
