"""Programs that run inside a pod: the standard library, and nothing else of ours or anyone's."""
