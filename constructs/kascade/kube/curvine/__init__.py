"""Curvine 0.4.1: one pool over the NVMe of every worker node, mounted by FUSE in every pod."""
