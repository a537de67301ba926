"""Proof that a second replica answers from what the first one computed."""
