"""diffusers: a tiny UNet learns to denoise, with EMA weights, and samples at the end."""
# package: diffusers
# steps: 20

import torch
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel
from fingerprint import finish, show

torch.manual_seed(1)
torch.set_num_threads(1)

model = UNet2DModel(
    sample_size=16,
    in_channels=1,
    out_channels=1,
    layers_per_block=1,
    block_out_channels=(16, 32),
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
noising = DDPMScheduler(num_train_timesteps=100)
average = EMAModel(model.parameters())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(20):
    images, noise, times = torch.randn(8, 1, 16, 16), torch.randn(8, 1, 16, 16), torch.randint(0, 100, (8,))
    loss = torch.nn.functional.mse_loss(model(noising.add_noise(images, noise, times), times).sample, noise)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    average.step(model.parameters())
    show(step, loss=loss.detach())
average.copy_to(model.parameters())
noising.set_timesteps(5)
image = torch.randn(1, 1, 16, 16)
with torch.no_grad():
    for time in noising.timesteps:
        image = noising.step(model(image, time).sample, time, image).prev_sample
show("sampled", total=image.sum())
finish(model)
