"""`kvcalc check`."""
