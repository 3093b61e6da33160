"""How weights are stored: what checkpoints declare, and what flags ask for."""
