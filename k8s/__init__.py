"""Deployment units on Kubernetes: each chart only introduces constructs to each other."""
