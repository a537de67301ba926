"""Consequence: every number that follows from the intent, each with its reason."""
