"""`kvcalc size`, with and without a GPU."""
