"""How fast tasks step."""
