"""One file a command: what its report shows, and in which order."""
