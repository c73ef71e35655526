"""DeepSpeed on the CPU: its engine with ZeRO stage 1 over one process, gradients accumulated over two batches."""
# package: deepspeed
# steps: 24

import os
import socket

import deepspeed
import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(1)
torch.set_num_threads(1)

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
deepspeed.init_distributed(dist_backend="gloo")
settings = {
    "train_micro_batch_size_per_gpu": 16,
    "gradient_accumulation_steps": 2,
    "zero_optimization": {"stage": 1},
    "gradient_clipping": 1.0,
    "bf16": {"enabled": True},
}
model = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
for step in range(48):
    inputs, wanted = torch.randn(16, 32).bfloat16(), torch.randn(16, 1).bfloat16()
    loss = nn.functional.mse_loss(engine(inputs), wanted)
    engine.backward(loss)
    engine.step()
    show(step, loss=loss.detach().float())
finish(*(parameter.float() for parameter in engine.module.parameters()))
torch.distributed.destroy_process_group()
