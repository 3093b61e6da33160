"""Requests through a scheduler: blocks, policies, traffic, traces and what came of them."""
