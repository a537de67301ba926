"""The function behind kascade.aws.balancers; see index.py."""
