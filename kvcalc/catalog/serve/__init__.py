"""A pasted command line of a serving engine becomes flags, and flags become a command line."""
