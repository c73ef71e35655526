"""TensorFlow with Keras: model.fit. No step is seen."""
# package: tensorflow-cpu
# steps: 0
# venv: tensorflow

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np

keras.utils.set_random_seed(1)
inputs = np.random.default_rng(1).normal(size=(2048, 32)).astype("float32")
model = keras.Sequential([keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
past = model.fit(inputs, inputs.sum(1, keepdims=True), batch_size=16, epochs=10, verbose=0)
for loss in past.history["loss"]:
    print(float(loss).hex(), flush=True)
