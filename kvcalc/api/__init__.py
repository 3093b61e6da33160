"""The commands as functions: their keywords are the flags, what they return is the JSON."""
