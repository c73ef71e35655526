"""An inference job: inference_job.py WIDTH EVERY_S WARM_UP FILE. Answers a request every so often until FILE is there.

The first WARM_UP of them come faster, as when a service is warmed up: the sooner it is known what the model needs.

Prints when each request came (monotonic seconds) and how long its answer took, in ms. It counts from when it comes:
waiting for a turn is part of that.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

import torch

from share_job import model

BATCH = 256
FASTER = 3

width, every_s, warm_up, file = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
net, took = model(width).eval(), []
with torch.inference_mode():
    while not file.exists():
        time.sleep(random.uniform(0.5, 1.5) * (every_s / FASTER if len(took) < warm_up else every_s))
        begun_s = time.monotonic()
        net(torch.randn(BATCH, width)).sum().item()
        took.append((begun_s, 1000 * (time.monotonic() - begun_s)))
print(json.dumps(took))
