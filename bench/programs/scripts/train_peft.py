"""peft: LoRA on a tiny Llama, trained by a plain loop; then merged."""
# package: peft
# steps: 24

import torch
from fingerprint import finish, show
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup, set_seed

set_seed(1)
torch.set_num_threads(1)

config = LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2)
model = get_peft_model(LlamaForCausalLM(config), LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
scheduler = get_cosine_schedule_with_warmup(optimizer, 4, 24)
for step in range(24):
    ids = torch.randint(0, 64, (8, 16))
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    show(step, loss=loss.detach())
finish(model.merge_and_unload())
