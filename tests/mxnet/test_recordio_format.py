"""Record files and mxnet: the same bytes, and each reads what the other writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncloader import recordio
from asyncloader.errors import AsyncLoaderError
from asyncloader.recordio.frames import MAGIC_BYTES

mxnet = pytest.importorskip("mxnet")
theirs = mxnet.recordio

pytestmark = pytest.mark.mxnet

pieces = st.sampled_from([MAGIC_BYTES, b"a", b"bcd", b"efgh", b"\x0a\x23", b"\xd7\xce"]) | st.binary(max_size=12)
payloads = st.lists(st.lists(pieces, max_size=8).map(b"".join), max_size=8)
keys = st.integers(-(2**63), 2**63 - 1)
properties = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _read_all(reader: object) -> list[bytes]:
    return list(iter(reader.read, None))  # type: ignore[attr-defined]


@properties
@given(payloads)
def test_both_write_the_same_bytes_and_read_each_others(tmp_path: Path, written):
    paths = {module: str(tmp_path / f"{module.__name__}.rec") for module in (theirs, recordio)}
    for module, path in paths.items():
        writer = module.MXRecordIO(path, "w")
        for payload in written:
            writer.write(payload)
        writer.close()
    assert Path(paths[theirs]).read_bytes() == Path(paths[recordio]).read_bytes()
    assert _read_all(theirs.MXRecordIO(paths[recordio], "r")) == written
    assert _read_all(recordio.MXRecordIO(paths[theirs], "r")) == written
    with recordio.RecordReader(paths[theirs]) as reader:
        assert reader.read_many(range(len(written)), copy=True) == written


@properties
@given(st.lists(st.tuples(keys, st.binary(max_size=9)), max_size=8))
def test_both_write_the_same_index(tmp_path: Path, records):
    texts = []
    for module in (theirs, recordio):
        index, path = str(tmp_path / f"{module.__name__}.idx"), str(tmp_path / f"{module.__name__}.rec")
        writer = module.MXIndexedRecordIO(index, path, "w")
        places = [writer.tell()]
        for key, payload in records:
            writer.write_idx(key, payload)
            places.append(writer.tell())
        assert writer.keys == [key for key, _ in records]
        texts.append((places, dict(writer.idx)))
        writer.close()
        texts[-1] += (Path(index).read_bytes(), Path(path).read_bytes())
    assert texts[0] == texts[1]


@properties
@given(payloads, st.data())
def test_of_a_file_cut_off_anywhere_both_read_the_same_records(tmp_path: Path, written, data):
    path = tmp_path / "cut.rec"
    content = b"".join(map(recordio.frames.encode, written))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    results = []
    for module, error in ((theirs, mxnet.MXNetError), (recordio, AsyncLoaderError)):
        reader = module.MXRecordIO(str(path), "r")
        got: list[object] = []
        try:
            while (payload := reader.read()) is not None:
                got.append(payload)
        except error:
            got.append("error")
        results.append(got)
    assert results[0] == results[1]


headers = st.tuples(
    st.integers(0, 2**32 - 1),
    st.floats(width=32, allow_nan=False) | st.lists(st.floats(width=32, allow_nan=False), max_size=5),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
)


@given(headers, st.binary(max_size=20))
def test_both_pack_the_same_header_and_unpack_it_alike(header, payload):
    packed = recordio.pack(recordio.IRHeader(*header), payload)
    assert packed == theirs.pack(theirs.IRHeader(*header), payload)
    (flag, label, number, number2), rest = recordio.unpack(packed)
    (their_flag, their_label, their_number, their_number2), their_rest = theirs.unpack(packed)
    assert (flag, number, number2, rest) == (their_flag, their_number, their_number2, their_rest)
    assert type(label) is type(their_label)
    assert list(label) == list(their_label) if flag else label == their_label


@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_unpacked_alike_or_refused_by_both(data):
    def result(module: object) -> object:
        try:
            header, rest = module.unpack(data)  # type: ignore[attr-defined]
        except Exception as error:
            return type(error)
        return repr(header[0]), repr(header[2:]), repr(header[1]), rest

    assert result(recordio) == result(theirs)


def test_a_scalar_of_numpy_is_one_label_and_an_array_of_one_is_an_array():
    import numpy as np

    for label in (np.float32(1.5), np.int64(3), np.array([2.0]), np.array(2.0), [1, 2], np.arange(6).reshape(2, 3)):
        assert recordio.pack((7, label, 1, 2), b"x") == theirs.pack((7, label, 1, 2), b"x")
