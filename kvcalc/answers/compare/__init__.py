"""`kvcalc compare`."""
