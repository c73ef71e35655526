"""torchvision's wheel from PyPI is built for CUDA and its operators do not load beside a CPU build of torch.

Its import then fails where it describes two of them. Declared here, without an implementation, they let it pass.
"""

import torch

library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
