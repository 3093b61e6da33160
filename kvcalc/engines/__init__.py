"""How a real engine spends its memory."""
