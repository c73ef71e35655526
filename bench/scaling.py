"""Inside a process that the native library serves: how long it takes to shrink, to grow and to swap, and the duty.

Run by sharing.py under the library. Prints a line of JSON.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
from weft_runtime.allocator import preloaded
from weft_runtime.page import layout
from weft_runtime.page.page_file import open_page

torch.set_num_threads(1)
native = preloaded()
page = open_page(os.environ["WEFT_PAGE"])
native.claim(page)
MB, BLOCKS, ROUNDS = 1_000_000, 10, 5
seen = {}


def available_bytes():
    """Of the machine's memory, as the kernel counts it."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def boundary(limit_bytes=0):
    """What it takes, in ms per 100 MB of ten such blocks."""
    page.words[layout.LIMIT] = limit_bytes
    began = time.perf_counter()
    native.rest()
    took_s = time.perf_counter() - began
    native.go()
    return took_s * 1e3 / BLOCKS


def blocks():
    return [torch.ones(100 * MB // 4) for _ in range(BLOCKS)]


def note(name, value):
    seen.setdefault(name, []).append(value)


boundary()
for _ in range(ROUNDS):
    kept = blocks()
    del kept  # cached now
    note("shrink_caches", boundary(64 * MB))
    boundary()
    began = time.perf_counter()
    kept = blocks()
    note("grow_fresh", (time.perf_counter() - began) * 1e3 / BLOCKS)
    note("shrink_live", boundary(64 * MB))
    note("grow_back", boundary())
    assert all(bool((block == 1).all()) for block in kept)
    native.rest()
    before = available_bytes()
    began = time.perf_counter()
    native.swap_out()
    out_s = time.perf_counter() - began
    note("swap_freed", (available_bytes() - before) / native.look().persistent)
    began = time.perf_counter()
    native.swap_in()
    in_s = time.perf_counter() - began
    native.go()
    note("swap_out_gb_s", BLOCKS * 100 * MB / 1e9 / out_s)
    note("swap_in_gb_s", BLOCKS * 100 * MB / 1e9 / in_s)
    assert all(bool((block == 1).all()) for block in kept)
    del kept
    boundary()

for duty in (50, 20, 100):
    page.words[layout.DUTY] = duty
    weights = torch.randn(400, 400)
    native.rest(), native.go()
    began, computed = time.monotonic(), time.process_time()
    while time.monotonic() - began < 3:
        for _ in range(20):
            weights = (weights @ weights).tanh()
        native.rest(), native.go()
    note(f"duty_{duty}", 100 * (time.process_time() - computed) / (time.monotonic() - began))
print(json.dumps(seen))
sys.stdout.flush()
