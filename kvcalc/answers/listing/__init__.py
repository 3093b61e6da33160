"""`kvcalc models` and `kvcalc gpus`."""
