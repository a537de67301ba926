"""Environments, checks and measurements of the repository. Not in the wheel."""
