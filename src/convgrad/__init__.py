"""Convolution gradients on any CPU, as an Ascend NPU's operators would be asked to compute them."""
