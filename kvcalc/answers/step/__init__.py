"""`kvcalc step`."""
