"""What an engine's pod carries of ours: an honest `/health`, limits, a drain, proof of its GPUs.

vLLM imports the first two by `--middleware`; the others are run by themselves. Standard library
only.
"""

from .health import CoreHealth
from .limits import Limits

__all__ = ["CoreHealth", "Limits"]
