"""What a model_type says that its keys alone cannot."""
