"""The layer that looks whether what was deleted from a cluster is gone."""
