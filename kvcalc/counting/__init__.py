"""Specs become counts: parameters, bytes, operators."""
