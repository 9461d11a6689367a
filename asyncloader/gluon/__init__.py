"""What ``mxnet.gluon.data`` holds, loading without a fork and reading without a shared file position.

``from asyncloader.gluon import DataLoader`` in place of ``from mxnet.gluon.data import DataLoader``, or
``from asyncloader import gluon as data`` in place of ``from mxnet.gluon import data``. What depends on neither workers
nor files is MXNet's own class: ``Dataset`` with its ``transform``, ``filter``, ``shard``, ``take`` and ``sample``, the
datasets of arrays, and the samplers.
"""

from asyncloader.gluon import batchify, vision
from asyncloader.gluon.framework import mxnet
from asyncloader.gluon.loader import DataLoader
from asyncloader.gluon.records import RecordFileDataset
from asyncloader.gluon.samplers import IntervalSampler

__all__ = [
    "ArrayDataset",
    "BatchSampler",
    "DataLoader",
    "Dataset",
    "FilterSampler",
    "IntervalSampler",
    "RandomSampler",
    "RecordFileDataset",
    "Sampler",
    "SequentialSampler",
    "SimpleDataset",
    "batchify",
    "vision",
]

ArrayDataset = mxnet.gluon.data.ArrayDataset
BatchSampler = mxnet.gluon.data.BatchSampler
Dataset = mxnet.gluon.data.Dataset
FilterSampler = mxnet.gluon.data.FilterSampler
RandomSampler = mxnet.gluon.data.RandomSampler
Sampler = mxnet.gluon.data.Sampler
SequentialSampler = mxnet.gluon.data.SequentialSampler
SimpleDataset = mxnet.gluon.data.SimpleDataset
