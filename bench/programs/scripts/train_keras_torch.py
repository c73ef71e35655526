"""Keras on PyTorch: model.fit, with Keras's own optimizer."""
# package: keras
# env: KERAS_BACKEND=torch
# steps: 24

import keras
import numpy as np
import torch

keras.utils.set_random_seed(1)
torch.set_num_threads(1)
inputs = np.random.default_rng(1).normal(size=(192, 32)).astype("float32")
model = keras.Sequential([keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
past = model.fit(inputs, inputs.sum(1, keepdims=True), batch_size=16, epochs=2, validation_split=0.0, verbose=0)
for loss in past.history["loss"]:
    print(float(loss).hex(), flush=True)
print(float(sum(weight.sum() for weight in model.get_weights())).hex(), flush=True)
