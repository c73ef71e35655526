"""A training job for lane measurements: lane_member.py WIDTH STEPS. A small CNN on one core.

Prints a line of JSON at its end: when (monotonic seconds) the step after the fifth began and when the last ended, and
what the native library says of its memory.
"""

import json
import os
import struct
import sys
import time
from pathlib import Path

import torch
from torch import nn

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
torch.set_num_threads(1)
torch.manual_seed(0)
width, steps = int(sys.argv[1]), int(sys.argv[2])
model = nn.Sequential(
    nn.Conv2d(3, width, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(width, 2 * width, 3, stride=2),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(2 * width * 15 * 15, 64),
    nn.ReLU(),
    nn.Linear(64, 10),
)
optimizer = torch.optim.Adam(model.parameters())
inputs, wanted = torch.randn(48, 3, 32, 32), torch.randint(0, 10, (48,))
began = time.monotonic()
for step in range(steps):
    if step == 5:
        began = time.monotonic()
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), wanted).backward()
    optimizer.step()
seen = {"began": began, "ended": time.monotonic()}
if "weft_runtime" in sys.modules:
    from weft_runtime.allocator import NativeState, preloaded
    from weft_runtime.page import lane_page

    native = preloaded()
    if native is not None:
        state = native.look()
        seen |= {name: getattr(state, name) for name in NativeState.NAMES}
    if lane := os.environ.get("WEFT_LANE"):
        (seen["reserved"],) = struct.unpack_from("=Q", Path(lane).read_bytes(), 8 * lane_page.RESERVED)
print(json.dumps(seen), flush=True)
sys.stdin.read()  # an interpreter takes its time to end, which is no part of what is measured
