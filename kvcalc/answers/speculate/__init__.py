"""`kvcalc speculate`."""
