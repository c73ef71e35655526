"""What runs inside the job's process: step boundaries, pauses, checkpoints.

Two worlds load this package. In a job it is called `weft_runtime`, put there by `inject/sitecustomize.py` into an
interpreter that may have never heard of weft. In weft itself it is `weft.runtime`, for the page that both sides share.
So it imports the standard library alone, itself by relative names, and is written for Python 3.8 and later.
"""
