"""Loaders for Hugging Face Accelerate."""

from __future__ import annotations

from typing import Any

from asyncloader.torch.framework import torch
from asyncloader.torch.loader import DataLoader

__all__ = ["prepare"]


def prepare(accelerator: Any, loader: DataLoader) -> Any:
    """Have Accelerate prepare a loader, and stay with it.

    ``accelerator.prepare(loader)`` cuts the batches among its processes and brings them to its device; but it makes
    them with a new loader of PyTorch's, of the same arguments. Here it is one of ours again.

    Parameters
    ----------
    accelerator : accelerate.Accelerator
        Accelerate's.
    loader : DataLoader
        What to prepare.

    Returns
    -------
    object
        What ``accelerator.prepare`` gives.
    """
    prepared = accelerator.prepare(loader)
    theirs = prepared.base_dataloader
    arguments: dict[str, Any] = {"batch_sampler": theirs.batch_sampler}
    if isinstance(theirs.dataset, torch.utils.data.IterableDataset):
        arguments = {"batch_size": theirs.batch_size, "drop_last": theirs.drop_last}
    elif theirs.batch_sampler is None:
        arguments = {"batch_size": None, "sampler": theirs.sampler}
    names = ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "generator", "prefetch_factor")
    arguments.update((name, getattr(theirs, name)) for name in (*names, "persistent_workers", "pin_memory_device"))
    prepared.base_dataloader = DataLoader(theirs.dataset, in_order=loader.in_order, workers=loader.workers, **arguments)
    return prepared
