"""The Hugging Face Hub, over huggingface_hub."""
