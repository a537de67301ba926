"""The control plane of the rehearsal: which versions, and how they are built."""
