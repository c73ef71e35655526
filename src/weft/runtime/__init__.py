"""What runs inside the job's process: step boundaries, pauses, checkpoints.

This package is loaded under two names. In a job it is `weft_runtime`, put by `inject/sitecustomize.py` into an
interpreter that may not have weft installed. In weft itself it is `weft.runtime`, for the page that both sides share.
So it imports the standard library alone, itself by relative names, and is written for Python 3.8 and later.
"""
