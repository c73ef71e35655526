"""JAX: a jitted update of a small network. No step is seen."""
# package: jax
# steps: 0

import jax
import jax.numpy as np


def predicted(weights, inputs):
    return np.tanh(inputs @ weights[0]) @ weights[1]


@jax.jit
def updated(weights, key):
    inputs = jax.random.normal(key, (64, 32))
    loss, slopes = jax.value_and_grad(lambda w: np.mean((predicted(w, inputs) - inputs.sum(1, keepdims=True)) ** 2))(
        weights
    )
    return [weight - 0.001 * slope for weight, slope in zip(weights, slopes, strict=True)], loss


keys = jax.random.split(jax.random.key(1), 2000)
weights = [jax.random.normal(keys[0], (32, 256)) / 6, jax.random.normal(keys[1], (256, 1)) / 16]
for step, key in enumerate(keys):
    weights, loss = updated(weights, key)
    if step % 100 == 0:
        print(step, float(loss).hex(), flush=True)
print(float(weights[0].sum()).hex(), flush=True)
