"""The index: text to arrays, keys to positions."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncloader.errors import IndexFileError, MissingFileError
from asyncloader.recordio import RecordIndex, RecordWriter
from asyncloader.recordio.index_text import parse_index
from asyncloader.recordio.spans import record_spans
from asyncloader.storage import LocalFile

int64s = st.integers(-(2**63), 2**63 - 1)
plain = st.integers(0, 10**18 - 1)


def _fours(numbers: list[int]) -> list[int]:
    return [4 * number for number in numbers]


@pytest.fixture
def record_file(tmp_path: Path) -> Path:
    path = tmp_path / "set.rec"
    with RecordWriter(path) as writer:
        for number in range(10):
            writer.write(bytes([number]) * 8)
    return path  # ten records of 16 bytes


def _load(text: bytes, record_file: Path) -> RecordIndex:
    path = record_file.with_suffix(".idx")
    path.write_bytes(text)
    with LocalFile(record_file) as file:
        return RecordIndex.load(path, file)


def _cut(text: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[begin:end] for begin, end in itertools.pairwise(places)]


@given(
    st.lists(st.tuples(plain | int64s, plain), max_size=40), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.data()
)
def test_integers_are_read_as_written_wherever_the_text_is_cut(lines, line_end, last_end, data):
    text = "".join(f"{key}\t{offset}{line_end}" for key, offset in lines).encode()
    text = text if last_end else text.removesuffix(line_end.encode())
    parsed = parse_index(_cut(text, data.draw(st.lists(st.integers(0, 10_000), max_size=5))), "x")
    assert isinstance(parsed.keys, np.ndarray)
    assert parsed.keys.tolist() == [key for key, _ in lines]
    assert parsed.offsets.tolist() == [offset for _, offset in lines]


keys = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\t\n\r"), min_size=1).filter(
    lambda key: key.encode().strip() == key.encode()
)


@given(st.lists(st.tuples(keys, plain), min_size=1, max_size=10))
def test_string_keys_are_read_as_written(lines):
    parsed = parse_index(["".join(f"{k}\t{o}\n" for k, o in lines).encode()], "x", "str")
    assert parsed.keys == [key for key, _ in lines]
    assert parsed.offsets.tolist() == [offset for _, offset in lines]


def test_one_string_among_integers_makes_all_keys_strings():
    assert parse_index([b"1\t0\n2\t8\n", b"cat\t16\n"], "x").keys == ["1", "2", "cat"]


@given(st.binary(max_size=60) | st.text("0123456789\t\n\r -+.x", max_size=60).map(str.encode))
def test_arbitrary_text_gives_numbers_or_our_error(text):
    try:
        parsed = parse_index([text], "/some.idx")
    except IndexFileError as error:
        message = str(error)
    else:
        message = None
    if message is not None:
        assert message.startswith("/some.idx, line ")
        return
    assert len(parsed.keys) == len(parsed.offsets) == len([line for line in text.split(b"\n") if line.strip()])


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"3", "a key, a tab"),
        (b"3 48", "a key, a tab"),
        (b"3\t48\t5", "a key, a tab"),
        (b"3\tabc", "not a number"),
        (b"3\t4.5", "not a number"),
        (b"3\t0x30", "not a number"),
        (b"\t48", "a key, a tab"),
        (b"", "empty"),
        (b"   ", "empty"),
        (b"3\t18446744073709551615", "the byte offset is -1"),
        (b"3\t-1", "the byte offset is -1"),
        (b"3\t9999999999999999999996", "the byte offset is -1"),
        (b"3\t160", "past the last record"),
        (b"3\t156", "past the last record"),
        (b"3\t999999999996", "past the last record"),
        (b"3\t46", "multiple of 4"),
    ],
)
def test_a_bad_line_is_named_by_its_number(record_file, bad, reason):
    with pytest.raises(IndexFileError, match=reason) as caught:
        _load(b"0\t0\n1\t16\n" + bad + b"\n5\t80\n", record_file)
    assert f"{record_file.with_suffix('.idx')}, line 3" in str(caught.value)
    assert "asyncloader index" in str(caught.value)


def test_the_number_of_a_bad_line_counts_all_chunks_before():
    good = b"".join(b"%d\t%d\n" % (i, i * 4) for i in range(5000))
    with pytest.raises(IndexFileError, match="line 10001"):
        parse_index([good, good, b"x\n"], "x")


def test_a_file_without_lines_is_given_up_early():
    def chunks():
        yield b"0\t0\n"
        for _ in range(3):
            yield b"3" * 50_000
        pytest.fail("read on")

    with pytest.raises(IndexFileError, match=r"line 2.*longer than"):
        parse_index(chunks(), "x")


def test_a_key_that_is_not_utf8_is_an_error():
    with pytest.raises(IndexFileError, match=r"line 2.*UTF-8"):
        parse_index([b"a\t0\n\xff\xfe\t8\n"], "x")


def test_blank_lines_at_the_end_are_nothing(record_file):
    assert _load(b"7\t0\n9\t16\n\n \r\n\n", record_file).keys.tolist() == [7, 9]


def test_a_missing_index_is_named(record_file):
    with LocalFile(record_file) as file, pytest.raises(MissingFileError, match=r"none\.idx"):
        RecordIndex.load(record_file.with_name("none.idx"), file)


@given(st.lists(st.integers(0, 50) | st.integers(0, 2**60), max_size=30).map(_fours), st.integers(0, 100))
def test_a_span_reaches_to_the_next_record_or_the_end(offsets, beyond):
    size = max(offsets, default=0) + 8 + beyond
    spans = record_spans(np.array(offsets, np.int64), size)
    for offset, span in zip(offsets, spans.tolist(), strict=True):
        following = min((other for other in offsets if other > offset), default=size)
        assert span == min(max(8, (following - offset) & ~3), 0xFFFFFFFC)


@given(st.lists(st.integers(-20, 20) | int64s, max_size=30), st.lists(st.integers(-20, 20) | int64s, max_size=10))
def test_a_key_is_found_at_its_last_position(keys, others):
    index = RecordIndex(np.array(keys, np.int64), np.arange(len(keys)) * 8, len(keys) * 8)
    positions = {key: position for position, key in enumerate(keys)}
    for key in [*keys, *others]:
        assert (key in index) == (key in positions)
        if key in positions:
            assert index.position_of(key) == positions[key]
        else:
            with pytest.raises(KeyError):
                index.position_of(key)
    assert index.positions_of(np.array(keys, np.int64)).tolist() == [positions[key] for key in keys]
    missing = [key for key in others if key not in positions]
    if missing:
        with pytest.raises(KeyError):
            index.positions_of(np.array(missing, np.int64))


def test_string_keys_are_found():
    index = RecordIndex(["cat", "dog", "cat"], [0, 8, 16], 24)
    assert index.position_of("cat") == 2
    assert index.positions_of(["dog", "cat"]).tolist() == [1, 2]
    assert "cow" not in index
    assert 1 not in index
    assert index.key(1) == "dog"


@pytest.mark.parametrize("order", ["ascending", "shuffled"])
def test_a_record_takes_24_bytes_at_most(order):
    count = 10_000
    keys, offsets = np.arange(count) * 3, np.arange(count) * 16
    if order == "shuffled":
        keys, offsets = np.random.default_rng(0).permutation(keys), np.random.default_rng(1).permutation(offsets)
    index = RecordIndex(keys, offsets, count * 16)
    assert index.keys[index.position_of(3)] == 3
    held = [value for value in vars(index).values() if value is not None]
    arrays = sum(value.nbytes for value in held if isinstance(value, np.ndarray))
    others = sum(sys.getsizeof(value) for value in held if not isinstance(value, np.ndarray))
    assert arrays <= 24 * count
    assert others < 1000


@pytest.mark.parametrize("keys", [[5, -3, 2**62], ["a", "b c", "ü"]])
def test_a_saved_index_loads_as_it_was(tmp_path, record_file, keys):
    index = RecordIndex(np.array(keys) if isinstance(keys[0], int) else keys, [32, 0, 16], 160)
    index.save(tmp_path / "new.idx")
    with LocalFile(record_file) as file:
        again = RecordIndex.load(tmp_path / "new.idx", file)
    assert list(again.keys) == keys
    assert again.offsets.tolist() == [32, 0, 16]


def test_a_built_index_has_positions_as_keys(record_file):
    with LocalFile(record_file) as file:
        index = RecordIndex.build(file)
    assert list(index.keys) == list(range(10))
    assert index.offsets.tolist() == [16 * number for number in range(10)]
