"""Tier L2 as the LMCache server of a pod sees it, one kind of it or another."""
