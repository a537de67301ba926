"""Intent: what a person wants, as closed and frozen types, and the one place that reads a file."""
