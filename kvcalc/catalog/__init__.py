"""Names and files become specs."""
