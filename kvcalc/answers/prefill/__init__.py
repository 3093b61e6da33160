"""`kvcalc prefill`."""
