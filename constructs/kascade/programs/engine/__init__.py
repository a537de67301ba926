"""What an engine's pod carries of ours: an honest `/health`, the wait before its end, its GPUs.

vLLM imports the first by `--middleware`; the others are run by themselves. Standard library only.
"""

from .health import CoreHealth

__all__ = ["CoreHealth"]
