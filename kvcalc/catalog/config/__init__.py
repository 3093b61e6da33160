"""A config.json becomes a ModelSpec."""
