"""What one token, one state and one element take: what several engines' layouts share."""
