"""What was measured, as a world file."""

from __future__ import annotations

from weft.calibration.measuring import Measured

LEAST_MEMORY_BYTES = 1 << 20


def world_text(measured: Measured) -> str:
    """TOML for `weft simulate --world`; what it does not say is as in the default world."""
    device, fit = measured.device, measured.fit
    pause_s = min(measured.gate_s, measured.relaunch_s)
    swap = "no job can be swapped out here" if measured.swap_s is None else f"by way of the disk {measured.swap_s:.4f}"
    moved = "" if measured.migration_s is None else f"; {measured.migration_s:.2f} on another device"
    lines = [
        f"# Measured by weft calibrate on {device.name} of this machine, with small models of PyTorch.",
        "",
        f"# Checkpoint, end, launch and restore on the same device{moved}.",
        f"preemption_s = {max(measured.relaunch_s, measured.migration_s or 0.0):.3f}",
        f"# At the gate, its memory kept; {swap}.",
        f"pause_s = {pause_s:.5f}",
        f"# Between measurements of {measured.piece_s:g} s.",
        f"rate_noise = {min(1.0, measured.rate_noise):.4f}",
        f"# Fitted to {len(measured.pairs)} pairs; of a relative rate the root of the mean square error is "
        f"{fit.root_mean_square:.3f}.",
        f"interference = {{contention = {fit.fitted.contention:.3f}}}",
        "",
        "[memory]",
        f"{device.type} = {device.memory_bytes}",
    ]
    for model, alone in measured.alone.items():
        weight = fit.profiles[model].weight
        lines += ["", f"# alone: {alone.rate_hz:.1f} steps/s", f'[models."{model}"]']
        lines.append(f"utilisation = [{alone.utilisation:.3f}, {weight:.3f}]")
        if alone.persistent_bytes >= LEAST_MEMORY_BYTES:  # the native library has seen it
            lines.append(f"memory = [{alone.persistent_bytes}, {alone.ephemeral_bytes}]")
    return "\n".join(lines) + "\n"
