"""`kvcalc kv`."""
