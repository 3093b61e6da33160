"""One file a command: puts the rooms below together into a report."""
