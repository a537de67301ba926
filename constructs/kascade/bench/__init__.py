"""Measures a running system: workloads, load, which tier answered, what it costs."""
