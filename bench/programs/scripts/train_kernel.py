"""A Jupyter kernel that a client drives: a cell that trains is interrupted, and the next cells train on."""
# package: ipykernel, jupyter_client
# steps: any

import sys
from queue import Empty

from cells import CELLS
from jupyter_client.manager import start_new_kernel

ENDLESS = """
import threading, signal, os
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()  # as the client's interrupt does
try:
    while True:
        optimizer.zero_grad()
        model(torch.randn(rows, 32)).pow(2).mean().backward()
        optimizer.step()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
AGAIN = """
torch.manual_seed(1)
model[0].reset_parameters(), model[2].reset_parameters()
optimizer = torch.optim.Adam(model.parameters())
"""

manager, client = start_new_kernel(kernel_name="python3")
try:
    for cell in (*CELLS[:2], ENDLESS, AGAIN, CELLS[2]):
        client.execute(cell)
        while True:
            try:
                said = client.get_iopub_msg(timeout=120)
            except Empty:
                sys.exit("the kernel says nothing")
            content = said["content"]
            if said["msg_type"] == "stream" and content["name"] == "stdout":
                print(content["text"], end="", flush=True)
            elif said["msg_type"] == "error":
                print(content["ename"], content["evalue"], flush=True)
            elif said["msg_type"] == "status" and content["execution_state"] == "idle":
                break
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=False)
