"""mxnet.recordio's classes beside ours: the same results for the same calls."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncloader import recordio

mxnet = pytest.importorskip("mxnet")
theirs = mxnet.recordio

pytestmark = pytest.mark.mxnet

KEYS = [4, 0, 17, -3, 9, 2**40, 5]
PAYLOADS = {key: b"payload %d" % key * (number * 3) for number, key in enumerate(KEYS)}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("classes")
    paths = str(folder / "set.idx"), str(folder / "set.rec")
    writer = theirs.MXIndexedRecordIO(*paths, "w")
    for key in KEYS:
        writer.write_idx(key, PAYLOADS[key])
    writer.close()
    return paths


def _result(step, *arguments) -> object:
    try:
        return step(*arguments)
    except (KeyError, AssertionError) as error:
        return type(error)


#: What a program does with a reader; each gives what the two are compared by.
READ_STEPS = {
    "read": lambda reader, key: reader.read(),
    "read_idx": lambda reader, key: reader.read_idx(key),
    "seek": lambda reader, key: reader.seek(key),
    "reset": lambda reader, key: reader.reset(),
    "tell": lambda reader, key: reader.tell(),
    "write": lambda reader, key: reader.write(b"x"),
    "write_idx": lambda reader, key: reader.write_idx(key, b"x"),
    "keys": lambda reader, key: list(reader.keys),
    "idx": lambda reader, key: dict(reader.idx),
    "flags": lambda reader, key: (reader.flag, reader.writable, reader.is_open, reader.key_type),
    "reopen": lambda reader, key: (reader.close(), reader.close(), reader.open()),
}
keys = st.sampled_from([*KEYS, 1, 1000])


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(READ_STEPS)), keys), max_size=12))
def test_any_sequence_of_calls_gives_what_mxnets_reader_gives(files, steps):
    readers = [module.MXIndexedRecordIO(*files, "r") for module in (theirs, recordio)]
    for name, key in steps:
        expected, got = (_result(READ_STEPS[name], reader, key) for reader in readers)
        assert got == expected, name


WRITE_STEPS = {
    "write_idx": lambda writer, key: writer.write_idx(key, b"%d" % key),
    "write": lambda writer, key: writer.write(b"unindexed"),
    "tell": lambda writer, key: writer.tell(),
    "reset": lambda writer, key: writer.reset(),
    "keys": lambda writer, key: (list(writer.keys), dict(writer.idx)),
    "read": lambda writer, key: writer.read(),
    "read_idx": lambda writer, key: writer.read_idx(key),
    "seek": lambda writer, key: writer.seek(key),
    "reopen": lambda writer, key: (writer.close(), writer.open()),
}


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(sorted(WRITE_STEPS)), keys), max_size=12))
def test_any_sequence_of_calls_writes_what_mxnets_writer_writes(tmp_path: Path, steps):
    paths = [(str(tmp_path / f"{n}.idx"), str(tmp_path / f"{n}.rec")) for n in ("theirs", "ours")]
    modules = (theirs, recordio)
    writers = [module.MXIndexedRecordIO(*pair, "w") for module, pair in zip(modules, paths, strict=True)]
    for name, key in steps:
        expected, got = (_result(WRITE_STEPS[name], writer, key) for writer in writers)
        assert got == expected, name
    for writer in writers:
        writer.close()
    for expected_path, path in zip(*paths, strict=True):
        assert Path(path).read_bytes() == Path(expected_path).read_bytes()
    readers = [module.MXIndexedRecordIO(*pair, "r") for module, pair in zip(modules, paths, strict=True)]
    assert list(readers[1].keys) == list(readers[0].keys)
    assert [readers[1].read_idx(key) for key in readers[1].keys] == [
        readers[0].read_idx(key) for key in readers[0].keys
    ]


@pytest.mark.parametrize("key_type", [str, float])
def test_other_types_of_keys(tmp_path: Path, key_type):
    written = ["1.5", "02", "7"]
    for module in (theirs, recordio):
        writer = module.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w", key_type)
        for key in written:
            writer.write_idx(key, key.encode())
        writer.close()
        readers = [
            reading.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "r", key_type=key_type)
            for reading in (theirs, recordio)
        ]
        assert readers[0].keys == readers[1].keys == [key_type(key) for key in written]
        assert readers[0].idx == readers[1].idx
        assert [r.read_idx(key_type("02")) for r in readers] == [b"02", b"02"]


def test_a_copy_by_pickle_reads_what_mxnets_copy_reads(files):
    copies = []
    for module in (theirs, recordio):
        reader = module.MXIndexedRecordIO(*files, "r")
        reader.read_idx(17)
        copy = pickle.loads(pickle.dumps(reader))
        copies.append(
            (copy.is_open, list(copy.keys), copy.read(), copy.read_idx(9), copy.read(), copy.uri, copy.idx_path)
        )
    expected, got = copies
    assert got[:-2] == expected[:-2]
    assert got[-1] == expected[-1]


def test_gluons_record_dataset_reads_through_ours(files, monkeypatch):
    monkeypatch.setattr(theirs, "MXIndexedRecordIO", recordio.MXIndexedRecordIO)
    dataset = mxnet.gluon.data.RecordFileDataset(files[1])
    assert [dataset[position] for position in range(len(dataset))] == [PAYLOADS[key] for key in KEYS]


def test_a_set_that_im2rec_shuffled(tmp_path: Path):
    import cv2

    rng = np.random.default_rng(0)
    for group in ("cats", "dogs"):
        (tmp_path / "images" / group).mkdir(parents=True)
        for number in range(15):
            picture = rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)
            cv2.imwrite(str(tmp_path / "images" / group / f"{number}.png"), picture)
    tool = Path(mxnet.__file__).parent / "tools" / "im2rec.py"
    base = [sys.executable, "-W", "ignore", str(tool), str(tmp_path / "set"), str(tmp_path / "images")]
    subprocess.run([*base, "--list", "--recursive"], check=True, capture_output=True)
    subprocess.run([*base, "--num-thread", "2"], check=True, capture_output=True)
    pair = str(tmp_path / "set.idx"), str(tmp_path / "set.rec")
    expected, ours = theirs.MXIndexedRecordIO(*pair, "r"), recordio.MXIndexedRecordIO(*pair, "r")
    assert sorted(ours.keys) == list(range(30))
    assert list(ours.keys) == expected.keys
    with recordio.RecordReader(pair[1]) as reader:
        records = reader.read_many(range(30))
        for position, key in enumerate(expected.keys):
            record = expected.read_idx(key)
            assert ours.read_idx(key) == record
            assert records[position] == record
            assert recordio.unpack(record)[0].label == theirs.unpack(record)[0].label
