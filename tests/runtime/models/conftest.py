"""Tiny tensors: a second thread would only be waited for."""

import torch

torch.set_num_threads(1)
