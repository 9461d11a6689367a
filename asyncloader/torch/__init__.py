"""What ``torch.utils.data`` holds, loading without a fork.

``from asyncloader.torch import DataLoader`` in place of ``from torch.utils.data import DataLoader``. The datasets, the
samplers and the collate functions are PyTorch's own, here so that one changed line is enough.
"""

from asyncloader.torch.accelerated import prepare
from asyncloader.torch.framework import torch
from asyncloader.torch.loader import DataLoader

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "prepare",
    "random_split",
]

BatchSampler = torch.utils.data.BatchSampler
ChainDataset = torch.utils.data.ChainDataset
ConcatDataset = torch.utils.data.ConcatDataset
Dataset = torch.utils.data.Dataset
DistributedSampler = torch.utils.data.DistributedSampler
IterableDataset = torch.utils.data.IterableDataset
RandomSampler = torch.utils.data.RandomSampler
Sampler = torch.utils.data.Sampler
SequentialSampler = torch.utils.data.SequentialSampler
StackDataset = torch.utils.data.StackDataset
Subset = torch.utils.data.Subset
SubsetRandomSampler = torch.utils.data.SubsetRandomSampler
TensorDataset = torch.utils.data.TensorDataset
WeightedRandomSampler = torch.utils.data.WeightedRandomSampler
default_collate = torch.utils.data.default_collate
default_convert = torch.utils.data.default_convert
get_worker_info = torch.utils.data.get_worker_info
random_split = torch.utils.data.random_split
