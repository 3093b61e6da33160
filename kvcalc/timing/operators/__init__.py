"""Seconds of one operator: its formula, with the constants that were measured for its kind."""
