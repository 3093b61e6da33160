"""What a question is about: frozen values that say nothing of where they came from or what follows."""
