"""Drives: reads a configuration, sizes it, applies the rules and builds the plan."""
