"""Keeps one shared cache directory below a mark: the oldest files go, and what dead pods left.

Runs in a pod beside the engines, with nothing but a Python 3. The process that is asked for metrics
never touches the mount: each round is a process of its own, watched by the first one, because a
system call on a mount whose server is gone may never return.
"""
