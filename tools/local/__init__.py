"""A deployment on this machine: the rendered pods as processes, on loopback, without a GPU."""
