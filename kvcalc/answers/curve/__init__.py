"""`kvcalc curve`."""
