"""Prints what a training script computed, exactly: one line a step, and one hash over everything at the end."""

import hashlib

import torch


def show(step, **values):
    """Print one line; floats and tensors as hexadecimal, so that no bit is lost."""
    print(f"step {step}", *(f"{name}={exact(value)}" for name, value in values.items()), flush=True)


def finish(*things):
    """Print a hash over tensors and whatever has a state_dict(): models, optimizers, schedulers, scalers."""
    digest = hashlib.sha256()
    for thing in things:
        feed(digest, thing)
    print(f"fingerprint {digest.hexdigest()}", flush=True)


def exact(value):
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(exact, value)) + "]"
    return value.hex() if isinstance(value, float) else str(value)


def feed(digest, thing):
    """Feed a value to the digest, each part preceded by its type and size, so that no two states read the same."""
    if hasattr(thing, "state_dict"):
        thing = thing.state_dict()
    if isinstance(thing, torch.Tensor):
        digest.update(f"tensor {thing.dtype} {tuple(thing.shape)};".encode())
        digest.update(thing.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    elif isinstance(thing, dict):
        digest.update(f"dict {len(thing)};".encode())
        for key in sorted(thing, key=lambda key: (type(key).__name__, key)):
            feed(digest, key)
            feed(digest, thing[key])
    elif isinstance(thing, (list, tuple)):
        digest.update(f"list {len(thing)};".encode())
        for item in thing:
            feed(digest, item)
    elif isinstance(thing, (bool, int, float, str, type(None))):
        text = exact(thing)
        digest.update(f"{type(thing).__name__} {len(text)} {text};".encode())
    else:
        raise TypeError(f"no exact bytes are known for a {type(thing).__name__}")
