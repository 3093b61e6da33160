"""A report becomes text. One file a format; nothing here computes."""
