"""PyTorch: scan a model, train it as a product would, and see what each dtype does to its gradients."""

import torch
from torch import nn

import convgrad.torch

torch.manual_seed(0)
torch.set_num_threads(2)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(),
    nn.Conv2d(16, 32, 3, stride=2, padding=1, groups=2), nn.ReLU(),
    nn.ConvTranspose2d(32, 8, 2, stride=2), nn.ReLU(),
    nn.Flatten(), nn.Linear(8 * 16 * 16, 10),
)  # fmt: skip
images, labels = torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))

# 1. Which layers does each product refuse, or compute in fewer bits? Shapes alone, nothing is allocated.
print(convgrad.torch.scan(model, images, products=("A2", "910"), allow_hf32=False))

# 2. One step with the gradients an A2 would compute: HF32 for convolutions unless it is switched off.
with convgrad.torch.emulate(product="A2") as record:
    nn.functional.cross_entropy(model(images), labels).backward()
for call in record:
    print(f"layer {call.layer}: {call.line}  computed in {call.computed_in}")

# 3. How far off are the gradients of each layer, per compute dtype?
print(convgrad.torch.impact(model, nn.functional.cross_entropy, (images, labels), modes=("hf32", "fp16", "hif8")))
