"""Facts: what exists, each with its source.

Instance types and their GPUs, models, regions, images, Kubernetes and add-on versions.
"""
