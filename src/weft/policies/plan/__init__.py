"""Planners: from the order of jobs to a plan of which job holds which devices."""
