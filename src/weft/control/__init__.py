"""The daemon: one writer loop over the decision core, a log that is the truth, and a REST API."""
