"""The writer loop: everything that arrives is handled as one instant, made durable, and then answered."""
