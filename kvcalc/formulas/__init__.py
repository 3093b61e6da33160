"""The literature as pure functions: no I/O, no classes, nothing from the rest of kvcalc."""
