"""An engine's start-up log becomes facts."""
