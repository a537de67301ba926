"""What cannot be, and what deserves a look: one file a subject, the same for YAML and library.

A rule takes what is known and yields a problem for each error. It computes nothing that the plan
needs; that is :mod:`kascade.sizing`. It changes nothing either, so rules run in any order.
"""

from kascade.rules.context import Context, Rule, problems_of

__all__ = ["Context", "Rule", "problems_of"]
