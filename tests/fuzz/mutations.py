"""Bytes that are nearly right: something valid, with a few of the changes that files in the wild have seen."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

MAGIC = bytes.fromhex("0a23d7ce")

#: What is put in place of other bytes: numbers at the ends of their ranges, and what parsers look for.
TOKENS = [
    MAGIC,
    bytes(4),
    b"\xff" * 4,
    b"\xff" * 8,
    b"\xff\xff\xff\x1f",  # a whole record of the longest part
    b"\x08\x00\x00\x20",  # a first part
    b"\x04\x00\x00\x40",  # a middle part
    b"\x00\x00\x00\x60",  # a last part
    (1 << 31).to_bytes(4, "little"),
    (1 << 63).to_bytes(8, "little"),
    b"18446744073709551615",
    b"-1",
    b"1e309",
    b"\t",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xef\xbb\xbf",
    "\u0664".encode(),  # a digit that is not ASCII
    b"..",
    b"/",
    b"\xff\xd8\xff",  # where a JPEG begins
    b"\xff\xc0\x00\x11\x08\xff\xff\xff\xff",  # the frame of one of 65535 x 65535 pixels
]


@st.composite
def mutated(draw: Any, valid: list[bytes]) -> bytes:
    """One of the valid examples with up to six changes, or now and then any bytes at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    data = bytearray(draw(st.sampled_from(valid)))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["flip", "put", "insert", "delete", "cut", "copy"]))
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "put":
            token = draw(st.sampled_from(TOKENS))
            data[at : at + len(token)] = token
        elif kind == "insert":
            data[at:at] = draw(st.sampled_from(TOKENS) | st.binary(max_size=9))
        elif kind == "delete":
            del data[at : at + draw(st.integers(1, 12))]
        elif kind == "cut":
            del data[at:]
        elif kind == "copy":
            start = draw(st.integers(0, len(data)))
            data[at:at] = data[start : start + draw(st.integers(0, 40))]
    return bytes(data)
