"""Amazon SageMaker's recordio-protobuf: tensors by name, in protobuf messages, in record files.

Source: the schema ``aialgs.data`` in "Common data formats for training" of the SageMaker developer guide.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncloader.collate import stack
from asyncloader.datasets.base import Dataset, Failure, LoadContext, Location, Transform, located, sample_error, unread
from asyncloader.datasets.records import PathOrPaths, RecordFiles
from asyncloader.errors import AsyncLoaderError, DecodeError

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from scipy.sparse import sparray

__all__ = ["ProtobufRecordDataset", "parse_record", "stack_sparse"]

Tensor: TypeAlias = "NDArray[Any] | sparray | bytes | list[bytes]"
Tensors: TypeAlias = "Tensor | dict[str, Tensor] | None"

#: The name under which SageMaker's algorithms look for a record's only features, or its only labels.
_ONLY = "values"

_EXTRA = "pip install 'asyncloader[sagemaker]'"
_DTYPES = {"float32_tensor": np.float32, "float64_tensor": np.float64, "int32_tensor": np.int32}


class ProtobufRecordDataset(Dataset):
    """Features and labels from record files as Amazon SageMaker writes them (recordio-protobuf).

    Parameters
    ----------
    path : path, list of paths, or glob
        The record files; several are seen as one, in the order given (a glob's in sorted order).
    index_path : path, optional
        The index, where one file is given and its index is not beside it. Without any index, as SageMaker's files are,
        one is built in memory by a scan.
    transform : callable, optional
        ``f(features)`` gives the features' successor and leaves the labels; ``f(features, labels)`` gives the whole
        sample. One that has a parameter ``rng`` gets the sample's own :class:`numpy.random.Generator` in it.

    Notes
    -----
    A sample is ``(features, labels)``, each as :func:`parse_record` gives it; :func:`stack_sparse` collates sparse
    ones.

    Raises
    ------
    AsyncLoaderError
        protobuf is not installed.
    MissingFileError, IndexFileError, CorruptRecordError
        At once, for what can be seen at opening.
    """

    def __init__(
        self,
        path: PathOrPaths,
        index_path: str | os.PathLike[str] | None = None,
        *,
        transform: Callable[..., Any] | None = None,
    ) -> None:
        _record_class()
        self.files = RecordFiles(path, index_path)
        self.transform = Transform(transform) if transform is not None else None

    def __len__(self) -> int:
        return len(self.files)

    def load_many(self, positions: Sequence[int], context: LoadContext) -> list[Any]:
        """Read and parse the records at ``positions``."""
        with context.time_reading():
            payloads = self.files.read_many(positions)
        with context.time_decoding():
            return [self._sample(*item, context) for item in zip(payloads, positions, strict=True)]

    def _sample(self, payload: bytes | memoryview | Exception, position: int, context: LoadContext) -> Any:
        if isinstance(payload, Exception):
            return unread(payload, self.locate(position), position)
        try:
            context.before_sample(position)
            features, labels = parse_record(payload)
            if self.transform is None:
                return features, labels
            return self.transform.on_pair(features, labels, position, context)
        except DecodeError as error:
            return Failure(located(error, self.locate(position), position))
        except Exception as error:
            step = str(self.transform) if self.transform is not None else "parsing"
            return Failure(sample_error(error, self.locate(position), position, step))

    def locate(self, position: int) -> Location:
        """Say where a record is."""
        return self.files.locate(position)

    def advise(self, positions: Sequence[int]) -> None:
        """Announce the records of ``positions`` to the kernel."""
        self.files.advise(positions)

    def close(self) -> None:
        """Close the files."""
        self.files.close()


def parse_record(payload: bytes | bytearray | memoryview) -> tuple[Tensors, Tensors]:
    """Parse one record.

    Parameters
    ----------
    payload : bytes-like
        A protobuf message ``aialgs.data.Record``.

    Returns
    -------
    features, labels : ndarray, sparse array, bytes, dict, or None
        What stands under the name ``values`` where that is the only name, else a dict by name; None where there is
        nothing. A dense tensor is an array of float32, float64 or int32, of the shape that the record says, else of
        one dimension. A sparse one is a :mod:`scipy.sparse` array: a row of shape (1, n) in CSR format, or a matrix in
        COO format. Bytes are ``bytes``, or a list of them where there are not exactly one.

    Raises
    ------
    DecodeError
        The payload is no such message, or its tensors are inconsistent.
    AsyncLoaderError
        protobuf is not installed; or the record is sparse, and scipy is not.
    """
    from google.protobuf.message import DecodeError as ProtobufError

    record: Any = _record_class()()
    try:
        record.ParseFromString(bytes(payload))
    except ProtobufError as error:
        raise DecodeError(
            f"the record is not a protobuf message ({error}); RecordDataset gives its bytes, ImageRecordDataset reads "
            "image records"
        ) from error
    if not record.features and not record.label:
        raise DecodeError(
            "the record is no SageMaker record, since it has neither features nor labels; RecordDataset gives its "
            "bytes, ImageRecordDataset reads image records"
        )
    try:
        return _tensors(record.features, "feature"), _tensors(record.label, "label")
    except UnicodeDecodeError as error:  # names are looked at when they are asked for
        raise DecodeError(f"a name in the record is not UTF-8 ({error}); the record is damaged") from error


def stack_sparse(samples: Sequence[Any]) -> Any:
    """Collate samples whose features are sparse rows into one CSR array of shape (samples, n).

    Parameters
    ----------
    samples : sequence of (features, labels)
        As :class:`ProtobufRecordDataset` gives them.

    Returns
    -------
    features, labels
        Labels, and features that are not sparse, are collated by :func:`asyncloader.stack`.
    """
    from scipy import sparse

    features, labels = zip(*samples, strict=True)
    if all(sparse.issparse(feature) for feature in features):
        return sparse.vstack(features, format="csr"), stack(labels)
    return stack(samples)


def _tensors(entries: Mapping[str, Any], kind: str) -> Tensors:
    # Sorted, since a protobuf map has no order of its own.
    tensors = {name: _tensor(entries[name], f"the {kind} {name!r}") for name in sorted(entries)}
    if set(tensors) == {_ONLY}:
        return tensors[_ONLY]
    return tensors or None


def _tensor(value: Any, name: str) -> Tensor:
    field = value.WhichOneof("value")
    if field is None:
        raise DecodeError(f"{name} has no value of a kind that is known (float32, float64, int32, bytes)")
    content = getattr(value, field)
    if field == "bytes":
        parts = list(content.value)
        return parts[0] if len(parts) == 1 else parts
    values = np.array(content.values, _DTYPES[field])
    keys = np.array(content.keys, np.uint64)
    shape = tuple(content.shape)
    if len(keys) or (len(values) == 0 and math.prod(shape) > 0 and shape):
        return _sparse(values, keys, shape, name)
    if not shape:
        return values
    if math.prod(shape) != len(values):
        raise DecodeError(f"{name} has {len(values)} values, which do not make up its shape {shape}")
    try:
        return values.reshape(shape)
    except (ValueError, OverflowError) as error:  # dimensions beside a zero may be of any size
        raise DecodeError(f"{name} has a shape that no array can have, {shape}") from error


def _sparse(values: NDArray[Any], keys: NDArray[np.uint64], shape: tuple[int, ...], name: str) -> sparray:
    if len(keys) != len(values):
        raise DecodeError(f"{name} is sparse, but has {len(keys)} keys for {len(values)} values")
    if len(shape) not in (1, 2):
        raise DecodeError(
            f"{name} is sparse and has {len(shape)} dimensions, where scipy.sparse has 1 or 2; "
            "RecordDataset gives the record's bytes"
        )
    size = math.prod(shape)
    if size >= 2**63:
        raise DecodeError(f"{name} has a shape that no array can have, {shape}")
    if len(keys) and int(keys.max()) >= size:
        raise DecodeError(f"{name} has the key {int(keys.max())}, which is past the end of its shape {shape}")
    if len(np.unique(keys)) != len(keys):
        raise DecodeError(f"{name} has the same key more than once")
    try:
        from scipy import sparse
    except ImportError as error:
        raise AsyncLoaderError(f"{name} is sparse, which needs scipy, which is not installed: {_EXTRA}") from error
    places = keys.astype(np.int64)
    if len(shape) == 1:
        return sparse.csr_array((values, places, np.array([0, len(places)])), shape=(1, *shape))
    # COO needs no memory by row, of which a few bytes can claim any number.
    return sparse.coo_array((values, (places // shape[1], places % shape[1])), shape=shape)


@functools.cache
def _record_class() -> type[Message]:
    """Build the message's class from its schema, in a pool of its own: SageMaker's own library may be loaded too."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise AsyncLoaderError(
            f"reading SageMaker's records needs protobuf, which is not installed: {_EXTRA}"
        ) from error
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="record.proto", package="aialgs.data", syntax="proto2")

    def add(message: Any, name: str, number: int, kind: int, *, repeated: bool = False, of: str = "") -> Any:
        label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
        field = message.field.add(name=name, number=number, type=kind, label=label)
        if of:
            field.type_name = f".aialgs.data.{of}"
        elif repeated and kind != kinds.TYPE_BYTES:
            field.options.packed = True
        return field

    for name, kind in (
        ("Float32Tensor", kinds.TYPE_FLOAT),
        ("Float64Tensor", kinds.TYPE_DOUBLE),
        ("Int32Tensor", kinds.TYPE_INT32),
    ):
        tensor = file.message_type.add(name=name)
        add(tensor, "values", 1, kind, repeated=True)
        add(tensor, "keys", 2, kinds.TYPE_UINT64, repeated=True)
        add(tensor, "shape", 3, kinds.TYPE_UINT64, repeated=True)
    raw = file.message_type.add(name="Bytes")
    add(raw, "value", 1, kinds.TYPE_BYTES, repeated=True)
    add(raw, "content_type", 2, kinds.TYPE_STRING)
    value = file.message_type.add(name="Value")
    value.oneof_decl.add(name="value")
    for name, number, kind_name in (
        ("float32_tensor", 2, "Float32Tensor"),
        ("float64_tensor", 3, "Float64Tensor"),
        ("int32_tensor", 7, "Int32Tensor"),
        ("bytes", 9, "Bytes"),
    ):
        add(value, name, number, kinds.TYPE_MESSAGE, of=kind_name).oneof_index = 0
    record = file.message_type.add(name="Record")
    for name, number, entry_name in (("features", 1, "FeaturesEntry"), ("label", 2, "LabelEntry")):
        entry = record.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        add(entry, "key", 1, kinds.TYPE_STRING)
        add(entry, "value", 2, kinds.TYPE_MESSAGE, of="Value")
        add(record, name, number, kinds.TYPE_MESSAGE, repeated=True, of=f"Record.{entry_name}")
    for name, number in (("uid", 3), ("metadata", 4), ("configuration", 5)):
        add(record, name, number, kinds.TYPE_STRING)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("aialgs.data.Record"))
