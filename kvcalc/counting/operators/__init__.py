"""The operators of a pass, with their bytes and FLOPs."""
