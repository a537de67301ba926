"""Keeps pytest's search for doctests out of what other interpreters run."""

collect_ignore = ["certificates.py", "fakes.py", "lambda_path"]
