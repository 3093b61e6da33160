"""Operators and a GPU become bounds and an estimate."""
