"""What Lambda lays on its Python path."""
