"""Folders of a node that belong to its operating system."""

from __future__ import annotations

import re
from typing import Final

OWN_MOUNT: Final = re.compile(
    r"(?!/(?:bin|boot|dev|etc|lib|lib64|proc|root|run|sbin|sys|usr)(/|$))/.*"
)
"""A path that is none of them (Filesystem Hierarchy Standard 3.0, section 3).

The cache's workers are given the right to write where a node's NVMe is mounted.

>>> bool(OWN_MOUNT.fullmatch("/opt/dlami/nvme")), bool(OWN_MOUNT.fullmatch("/etc/x"))
(True, False)
"""
