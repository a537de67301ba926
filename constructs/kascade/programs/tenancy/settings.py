"""What the middleware is told, through the environment of its container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

TENANTS: Final = "KASCADE_TENANTS"
HEADER: Final = "KASCADE_TENANT_HEADER"
LARGEST_BODY: Final = "KASCADE_LARGEST_BODY_BYTES"

_LONGEST_SALT: Final = 128
_FORBIDDEN: Final = frozenset("@/\\\x00")
"""As vLLM 0.32 has it: a salt becomes part of a file's name."""


class SettingsError(ValueError):
    """The environment does not say whom to serve; vLLM must not start then."""


@dataclass(frozen=True)
class TenancySettings:
    """Whom an engine serves.

    Attributes:
        tenants: Every known tenant; its name is its salt.
        header: Lower-case name of the header that names the tenant, or None where there is one
            tenant only, whose every request is.
        largest_body_bytes: Longest body that is read.
    """

    tenants: frozenset[str]
    header: bytes | None
    largest_body_bytes: int

    @property
    def only_tenant(self) -> str:
        """The one tenant, where no header tells."""
        (tenant,) = self.tenants
        return tenant

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> TenancySettings:
        """Read them.

        Raises:
            SettingsError: Something is missing or makes no sense; the text says what.
        """
        names = [name for name in environment.get(TENANTS, "").split(",") if name]
        header = environment.get(HEADER, "").lower()
        size = environment.get(LARGEST_BODY, "")
        if not names:
            msg = f"{TENANTS} names no tenant; nobody could be served"
            raise SettingsError(msg)
        for name in names:
            if len(name) > _LONGEST_SALT or _FORBIDDEN & set(name):
                msg = f"{TENANTS} names {name!r}, which vLLM takes for no salt"
                raise SettingsError(msg)
        if not header and len(names) > 1:
            msg = f"{TENANTS} names {len(names)} tenants, so {HEADER} has to say how they are told"
            raise SettingsError(msg)
        if not size.isdecimal() or int(size) == 0:
            msg = f"{LARGEST_BODY} is {size!r} and has to be a number of bytes"
            raise SettingsError(msg)
        return cls(
            tenants=frozenset(names),
            header=header.encode() if header else None,
            largest_body_bytes=int(size),
        )
