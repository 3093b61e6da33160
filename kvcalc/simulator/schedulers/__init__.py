"""Schedulers, one file a policy."""
