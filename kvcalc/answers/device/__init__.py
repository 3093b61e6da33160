"""What the executor's measurements are compared with."""
