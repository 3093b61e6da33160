"""Shapes and bytes that a checkpoint's own headers state."""
