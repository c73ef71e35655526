"""Resumes from each folder that is named on a line of its input, in a process of its own, and says how that went.

{"folder": "/a/b", "trust": false} → {"how": "resumed", "step": 80}, {"how": "refused", "why": …}, {"how": "new"}
"""

import json
import os
import signal
import sys
import traceback

import torch

from weft.runtime.agent import Agent
from weft.runtime.checkpoint.rank_store import CheckpointError
from weft.runtime.checkpoint.run_state import Progress

PATIENCE_S = 600

for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE_S)
        os.environ.pop("WEFT_TRUST_CHECKPOINT", None)
        if asked.get("trust"):
            os.environ["WEFT_TRUST_CHECKPOINT"] = "1"
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1)
        progress = Progress(Agent("/nonexistent/page"), asked["folder"])
        try:
            is_resumed = progress.resume({"model": model})
            said = {"how": "resumed", "step": progress.step} if is_resumed else {"how": "new"}
            if asked.get("save"):
                progress.step = asked["save"]
                progress._save()
        except CheckpointError as error:
            said = {"how": "refused", "why": str(error)}
        except BaseException:  # noqa: BLE001 -- whatever it is, it is told
            said = {"how": "broken", "why": traceback.format_exc()}
        print(json.dumps(said), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(json.dumps({"how": "broken", "why": f"ended with {status}"}), flush=True)
