"""`kvcalc simulate`."""
