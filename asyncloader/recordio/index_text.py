"""Parsing the text of an index: a key, a tab and a byte offset a line.

Millions of lines are parsed as whole arrays. A number's last eight digits are loaded as one 64-bit word, and three
multiplications turn the eight digits of all words at once into numbers; longer numbers take a second and a third word.
Text that does not look plain enough (signs, string keys, blanks) is parsed line by line, which also finds what is
wrong with it.

Source of the digits' arithmetic: the folklore of SIMD within a register; see D. Lemire, "Quickly parsing eight digits",
2018.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncloader.errors import IndexFileError

__all__ = ["IndexLines", "KeyType", "parse_index"]

KeyType: TypeAlias = Literal["auto", "str"]

#: A line is a key and a number; what is longer than this is no line of an index.
_LONGEST_LINE = 1 << 16
_MAX_INT64 = (1 << 63) - 1
_INTEGER = re.compile(rb"[+-]?[0-9]{1,19}")
_NUMBER = re.compile(rb"[+-]?[0-9]{1,99}")
#: So many digits always fit into 63 bits.
_PLAIN_DIGITS = 18
_TAB, _NEWLINE, _ZERO = b"\t"[0], b"\n"[0], b"0"[0]


class IndexLines(NamedTuple):
    """What the lines of an index say.

    Attributes
    ----------
    keys : ndarray of int64, or list of str
        Integers where every key is one that fits into 64 bits.
    offsets : ndarray of int64
        Byte offsets, unchecked but for being numbers.
    """

    keys: NDArray[np.int64] | list[str]
    offsets: NDArray[np.int64]


def parse_index(chunks: Iterable[bytes], path: str, keys: KeyType = "auto") -> IndexLines:
    """Parse an index.

    Parameters
    ----------
    chunks : iterable of bytes
        The text, cut anywhere.
    path : str
        Where it comes from, for the messages.
    keys : {"auto", "str"}
        Keys are integers where all of them are, else strings; or strings always.

    Raises
    ------
    IndexFileError
        A line is not a key, a tab and an offset; the message has its number.
    """
    parser = _Parser(path, keys)
    for text in _whole_lines(chunks, parser):
        parser.feed(text)
    return parser.result()


def _whole_lines(chunks: Iterable[bytes], parser: _Parser) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if end:
            yield rest + chunk[:end]
            rest = chunk[end:]
        else:
            rest += chunk
        if len(rest) > _LONGEST_LINE:
            raise parser.error(parser.lines, rest, f"the line is longer than {_LONGEST_LINE} bytes")
    if rest:
        yield rest + b"\n"


class _Parser:
    def __init__(self, path: str, key_type: KeyType) -> None:
        self.path = path
        self.key_type = key_type
        self.lines = 0
        self._blank: int | None = None
        self._keys: list[NDArray[np.int64] | list[bytes]] = []
        self._offsets: list[NDArray[np.int64]] = []

    def feed(self, text: bytes) -> None:
        """Parse whole lines."""
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        plain = self._blank is None and self.key_type == "auto"
        numbers = _plain_numbers(text) if plain else None
        if numbers is None:
            self._feed_lines(text)
            return
        self._keys.append(np.ascontiguousarray(numbers[:, 0]))
        self._offsets.append(np.ascontiguousarray(numbers[:, 1]))
        self.lines += len(numbers)

    def _feed_lines(self, text: bytes) -> None:
        keys: list[bytes] = []
        offsets: list[int] = []
        for line in text[:-1].split(b"\n"):
            stripped = line.strip()
            if not stripped:
                self._blank = self.lines if self._blank is None else self._blank
                self.lines += 1
                continue
            if self._blank is not None:
                raise self.error(self._blank, b"", "the line is empty")
            fields = stripped.split(b"\t")
            if len(fields) != 2:
                raise self.error(self.lines, line, "a key, a tab and a byte offset were expected")
            offset = fields[1].strip()
            if not _NUMBER.fullmatch(offset):
                raise self.error(self.lines, line, "the byte offset is not a number")
            if int(offset) > _MAX_INT64 or int(offset) < 0:
                raise self.error(self.lines, line, "the byte offset is -1, or too large: its writer could not tell it")
            keys.append(fields[0].strip())
            offsets.append(int(offset))
            self.lines += 1
        self._keys.append(keys)
        self._offsets.append(np.array(offsets, np.int64))

    def result(self) -> IndexLines:
        """Give all lines."""
        keys = self._all_keys()
        self._keys.clear()
        return IndexLines(keys, np.concatenate([np.empty(0, np.int64), *self._offsets]))

    def _all_keys(self) -> NDArray[np.int64] | list[str]:
        if self.key_type == "auto":
            integers = [keys if isinstance(keys, np.ndarray) else _integers(keys) for keys in self._keys]
            if not any(keys is None for keys in integers):
                return np.concatenate([np.empty(0, np.int64), *(keys for keys in integers if keys is not None)])
        strings: list[str] = []
        for keys in self._keys:
            for key in keys if isinstance(keys, list) else map(b"%d".__mod__, keys.tolist()):
                try:
                    strings.append(key.decode())
                except UnicodeDecodeError as error:
                    raise self.error(len(strings), key, "the key is not UTF-8") from error
        return strings

    def error(self, line: int, content: bytes, fault: str) -> IndexFileError:
        """Make the error for a line, counted from 0."""
        shown = repr(content[:60])[1:] + (" ..." if len(content) > 60 else "")
        return IndexFileError(
            f"{self.path}, line {line + 1}: {fault}, but the line is {shown}; "
            "write the index anew with `asyncloader index`",
            path=self.path,
            position=line,
        )


def _integers(keys: list[bytes]) -> NDArray[np.int64] | None:
    if not all(map(_INTEGER.fullmatch, keys)):
        return None
    try:
        return np.array(list(map(int, keys)), np.int64)
    except OverflowError:
        return None


def _plain_numbers(text: bytes) -> NDArray[np.int64] | None:
    """Parse lines of two unsigned numbers each to an array of shape (lines, 2); None where one is not so plain."""
    # Zeros before the text, so that the words that hold the first number's digits begin inside the array.
    data = np.frombuffer(b"0" * 24 + text, np.uint8)
    separators = np.flatnonzero(data - np.uint8(_ZERO) > 9)
    if len(separators) % 2 or not _alternate(data[separators]):
        return None
    lengths = np.diff(separators, prepend=23) - 1
    if lengths.min() < 1 or lengths.max() > _PLAIN_DIGITS:
        return None
    values = np.zeros(len(separators), np.uint64)
    eights = np.ndarray((len(data) - 7,), "<u8", buffer=data, strides=(1,))
    for word in range((int(lengths.max()) + 7) // 8):
        digits = eights[separators - 8 * (word + 1)]
        values += _eight_digits(digits, lengths - 8 * word) * np.uint64(10 ** (8 * word))
    return values.view(np.int64).reshape(-1, 2)


def _alternate(separators: NDArray[np.uint8]) -> bool:
    return bool((separators[0::2] == _TAB).all() and (separators[1::2] == _NEWLINE).all())


def _eight_digits(words: NDArray[np.uint64], counts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Give the numbers that the last ``counts`` of eight ASCII digits make; the first digit is in the lowest byte."""
    foreign = ((8 - np.clip(counts, 0, 8)) * 8).astype(np.uint64)
    half = foreign >> np.uint64(1)  # a shift by all 64 bits is not defined, two by 32 are
    words = words >> half >> half << half << half
    words &= np.uint64(0x0F0F0F0F0F0F0F0F)
    words = (words * np.uint64(10) + (words >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    words = (words * np.uint64(100) + (words >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return (words * np.uint64(10000) + (words >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
