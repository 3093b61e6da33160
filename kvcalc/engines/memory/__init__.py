"""Memory before the cache: what several engines share."""
