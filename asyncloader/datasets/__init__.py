"""Things with a length that give samples, one or many at a time."""

from asyncloader.datasets.array import ArrayDataset
from asyncloader.datasets.base import Dataset, MapDataset
from asyncloader.datasets.faces import FaceRecordDataset
from asyncloader.datasets.folder import ImageFolderDataset
from asyncloader.datasets.images import ImageRecordDataset
from asyncloader.datasets.records import RecordDataset

__all__ = [
    "ArrayDataset",
    "Dataset",
    "FaceRecordDataset",
    "ImageFolderDataset",
    "ImageRecordDataset",
    "MapDataset",
    "RecordDataset",
]
