"""Heals Curvine's mounts of a node after the CSI driver was restarted.

FUSE runs inside the driver's container and ends with it; the mounts of all pods of the node are
dead then, and stay so. The driver itself takes its mounts for alive, by what it wrote down before.
"""
