"""Planners: from the order of jobs to a plan of who holds which devices."""
