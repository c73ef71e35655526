"""Hugging Face Trainer: a tiny GPT-2 made from a configuration, gradients accumulated, evaluation each epoch."""
# package: transformers
# steps: 24

import tempfile

import torch
from fingerprint import finish
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

set_seed(1)
torch.set_num_threads(1)

model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=64, n_layer=2, n_head=2))
rows = [{"input_ids": (ids := torch.randint(0, 64, (16,))), "labels": ids} for _ in range(192)]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        num_train_epochs=2,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_steps=1,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:32])
    trainer.train()
for entry in trainer.state.log_history:
    print(entry["step"], *(entry[name].hex() for name in ("loss", "eval_loss", "train_loss") if name in entry))
finish(model)
