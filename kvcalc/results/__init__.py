"""Frozen results, one file a command. The JSON schema comes from them."""
