"""ultralytics: its DetectionTrainer on eight made-up pictures, with warm-up, EMA and accumulated gradients."""
# package: ultralytics
# needs: torchvision
# steps: any

import without_torchvision_ops  # noqa: F401 -- first
import os
import sys
import tempfile
from pathlib import Path

folder = tempfile.mkdtemp()
os.environ.update(YOLO_CONFIG_DIR=folder, YOLO_OFFLINE="1")

import cv2
import numpy as np
import torch
from fingerprint import finish
from ultralytics import YOLO

torch.set_num_threads(1)
chance = np.random.default_rng(1)
for part in ("train", "val"):
    for kind in ("images", "labels"):
        Path(folder, kind, part).mkdir(parents=True)
    for number in range(16):
        picture = chance.integers(0, 255, (64, 64, 3), dtype=np.uint8)
        cv2.imwrite(str(Path(folder, "images", part, f"{number}.png")), picture)
        Path(folder, "labels", part, f"{number}.txt").write_text("0 0.5 0.5 0.4 0.4\n")
Path(folder, "data.yaml").write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: [thing]\n")
model = YOLO("yolo11n.yaml", verbose=False)
model.train(
    data=str(Path(folder, "data.yaml")), epochs=3, imgsz=64, batch=4, workers=0, device="cpu", val=False, plots=False,
    save=False, amp=False, seed=1, deterministic=True, verbose=False, project=folder, pretrained=False, optimizer="SGD",
)
finish(model.model)
