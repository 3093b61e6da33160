"""No engine: the mathematics alone."""
