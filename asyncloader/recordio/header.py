"""The header of an image record: labels and ids before the picture's bytes."""

from __future__ import annotations

import numbers
import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["HEADER", "HeaderLike", "IRHeader", "pack", "unpack"]

HEADER = struct.Struct("<IfQQ")

Label: TypeAlias = float | Sequence[float] | NDArray[np.float32]


class IRHeader(NamedTuple):
    """Labels and ids of an image record.

    Parameters
    ----------
    flag : int
        0 where the label is one number, else the number of labels.
    label : float or array of float
        The label, or the labels.
    id : int
        Usually the record's own number.
    id2 : int
        The higher bits of the id, mostly 0.
    """

    flag: int
    label: Label
    id: int
    id2: int


HeaderLike: TypeAlias = IRHeader | tuple[int, Label, int, int]


def pack(header: HeaderLike, s: bytes) -> bytes:
    """Put a header before bytes.

    Parameters
    ----------
    header : IRHeader
        Its flag is set from the label: 0 for a number, else how many labels there are.
    s : bytes
        What follows the header, a picture mostly.

    Returns
    -------
    bytes

    Raises
    ------
    struct.error
        An id does not fit into 64 bits.
    """
    header = IRHeader(*header)
    if isinstance(header.label, numbers.Number):
        return HEADER.pack(0, header.label, header.id, header.id2) + s
    labels = np.asarray(header.label, dtype="<f4")
    return HEADER.pack(labels.size, 0, header.id, header.id2) + labels.tobytes() + s


def unpack(s: bytes) -> tuple[IRHeader, bytes]:
    """Take the header off a record.

    Parameters
    ----------
    s : bytes
        The record; a memoryview does as well, and what follows the header is one then.

    Returns
    -------
    header : IRHeader
        Its label is an array of float32 where the flag is not 0.
    s : bytes
        What follows the header and the labels.

    Raises
    ------
    struct.error
        The record is shorter than a header.
    ValueError
        It is too short for the labels that its header announces.
    """
    header = IRHeader(*HEADER.unpack(s[: HEADER.size]))
    if header.flag == 0:
        return header, s[HEADER.size :]
    labels: NDArray[np.float32] = np.frombuffer(s[HEADER.size :], "<f4", header.flag)
    return header._replace(label=labels), s[HEADER.size + 4 * header.flag :]
