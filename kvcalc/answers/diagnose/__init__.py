"""`kvcalc diagnose`."""
