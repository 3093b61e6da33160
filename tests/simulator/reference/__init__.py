"""Schedulers step by step and block by block, in one file a policy: what the package's jumps must equal."""
