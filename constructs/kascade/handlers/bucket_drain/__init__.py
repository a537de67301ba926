"""The function behind kascade.aws.buckets; see index.py."""
