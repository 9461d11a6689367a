"""An index's arrays, seen as the list and the dict that mxnet's reader has in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from asyncloader.recordio.index import RecordIndex

__all__ = ["KeyList", "OffsetMap"]


class KeyList(Sequence[int]):
    """Keys by position, as Python's integers: a list that takes 8 bytes an item."""

    def __init__(self, keys: NDArray[np.int64]) -> None:
        self._keys = keys

    @overload
    def __getitem__(self, item: int) -> int: ...
    @overload
    def __getitem__(self, item: slice) -> list[int]: ...
    def __getitem__(self, item: int | slice) -> int | list[int]:
        if isinstance(item, slice):
            part: list[int] = self._keys[item].tolist()
            return part
        return int(self._keys[item])

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[int]:
        for start in range(0, len(self._keys), 4096):
            yield from self._keys[start : start + 4096].tolist()

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int | float | np.number) and bool((self._keys == key).any())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, KeyList):
            return bool(np.array_equal(self._keys, other._keys))
        return isinstance(other, list) and self._keys.tolist() == other

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        return np.array(self._keys, dtype)

    def __repr__(self) -> str:
        return repr(self._keys.tolist())


class OffsetMap(Mapping[int, int]):
    """The byte offset of each key's record: a dict that takes no memory of its own."""

    def __init__(self, index: RecordIndex) -> None:
        self._index = index

    def __getitem__(self, key: int) -> int:
        return int(self._index.offsets[self._index.position_of(key)])

    def __contains__(self, key: object) -> bool:
        return key in self._index

    def __iter__(self) -> Iterator[int]:
        return iter(dict.fromkeys(np.asarray(self._index.keys).tolist()))

    def __len__(self) -> int:
        return len(np.unique(np.asarray(self._index.keys)))

    def __repr__(self) -> str:
        return repr(dict(self))
