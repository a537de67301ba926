"""Limits of HyperPod itself, which a configuration and a construct of the library both meet."""

from typing import Final

MIN_TIERED_PERCENTAGE: Final = 20
"""HyperPod's documentation calls 20 to 100 valid, while the API's schema takes 0 to 100."""
