"""The real thing: a paged decode loop on a device. The only room that imports torch."""
