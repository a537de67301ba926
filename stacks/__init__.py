"""Deployment units on AWS: each stack only introduces constructs to each other."""
