"""The function behind kascade.aws.drain; see index.py."""
