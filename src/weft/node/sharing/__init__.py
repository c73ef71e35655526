"""Several jobs on one device: lanes, throttling, memory, comparisons."""
