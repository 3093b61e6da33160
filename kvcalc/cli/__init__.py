"""Typer, one file a command: flags, catalog, answers, render, exit code."""
