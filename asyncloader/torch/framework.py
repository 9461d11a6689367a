"""PyTorch, or word of how to get it; imported here and nowhere else."""

from __future__ import annotations

__all__ = ["torch"]

try:
    import torch
    import torch.utils.data
except ImportError as error:
    raise ImportError(
        "asyncloader.torch needs PyTorch, which is not installed: pip install 'asyncloader[torch]'"
    ) from error
