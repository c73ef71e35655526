"""Measuring this machine with real jobs, and writing down what was measured as a world."""
