"""mxnet.recordio's classes: what holds beyond what mxnet's own do."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from asyncloader.errors import CorruptRecordError, FileChangedError, IndexFileError, LoaderClosedError, MissingFileError
from asyncloader.recordio import MXIndexedRecordIO, MXRecordIO

PAYLOADS = [b"record %d " % number * (number % 40) for number in range(200)]
Files = tuple[str, str]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    paths = str(tmp_path / "set.idx"), str(tmp_path / "set.rec")
    writer = MXIndexedRecordIO(*paths, "w")
    for number in np.random.default_rng(0).permutation(200).tolist():
        writer.write_idx(number, PAYLOADS[number])
    writer.close()
    return paths


def _all_right(reader: MXIndexedRecordIO, seed: int = 0) -> bool:
    return all(reader.read_idx(k) == PAYLOADS[k] for k in np.random.default_rng(seed).integers(0, 200, 300).tolist())


def test_keys_and_offsets_are_seen_as_a_list_and_a_dict(files):
    reader = MXIndexedRecordIO(*files, "r")
    keys = [int(line.split("\t")[0]) for line in Path(files[0]).read_text().splitlines()]
    assert reader.keys == keys
    assert list(reader.keys) == keys
    assert reader.keys[3:6] == keys[3:6]
    assert all(isinstance(key, int) for key in reader.keys)
    assert np.asarray(reader.keys).tolist() == keys
    assert len(reader.idx) == 200
    assert list(reader.idx) == keys
    assert 5 in reader.keys
    assert 200 not in reader.idx
    assert reader.idx == {
        int(k): int(o) for k, o in (line.split("\t") for line in Path(files[0]).read_text().splitlines())
    }


def test_many_threads_ask_one_reader(files):
    reader = MXIndexedRecordIO(*files, "r")
    results: list[bool] = []
    threads = [
        threading.Thread(target=lambda seed=seed: results.append(_all_right(reader, seed))) for seed in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 16


def test_threads_that_read_on_share_the_records_among_them(files):
    reader = MXRecordIO(files[1], "r")
    got: list[bytes] = []

    def read() -> None:
        while (record := reader.read()) is not None:
            got.append(record)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(PAYLOADS)


@pytest.mark.posix
@pytest.mark.allow_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_and_its_parent_both_read_and_only_the_parent_writes(files, tmp_path):
    reader = MXIndexedRecordIO(*files, "r")
    writer = MXRecordIO(str(tmp_path / "new.rec"), "w")
    writer.write(b"parent")
    child = os.fork()
    if child == 0:
        try:
            writer.write(b"child")
        except RuntimeError:
            writer.close()
            os._exit(0 if _all_right(reader) and reader.read() is not None else 1)
        os._exit(2)
    assert _all_right(reader, 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not (tmp_path / "new.rec").exists()
    writer.close()
    assert MXRecordIO(str(tmp_path / "new.rec"), "r").read() == b"parent"


def test_a_spawned_process_opens_the_files_again(files):
    reader = MXIndexedRecordIO(*files, "r")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_all_right, (reader,))
    assert _all_right(reader)


def test_pickling_leaves_the_reader_open_and_its_copy_begins_anew(files):
    reader = MXIndexedRecordIO(*files, "r")
    first = reader.read()
    copy = pickle.loads(pickle.dumps(reader))
    assert copy.read() == first
    assert reader.read() != first
    assert copy.keys == reader.keys


def test_a_closed_reader_is_pickled_as_closed(files):
    reader = MXIndexedRecordIO(*files, "r")
    reader.close()
    copy = pickle.loads(pickle.dumps(reader))
    assert not copy.is_open
    with pytest.raises(LoaderClosedError):
        copy.read_idx(1)
    copy.open()
    assert _all_right(copy)


def test_a_copy_finds_out_that_the_file_has_changed(files):
    data = pickle.dumps(MXRecordIO(files[1], "r"))
    os.utime(files[1], ns=(1, 1))
    with pytest.raises(FileChangedError):
        pickle.loads(data)


def test_a_writer_is_not_pickled(tmp_path):
    with MXRecordIO(str(tmp_path / "new.rec"), "w") as writer, pytest.raises(TypeError, match="only readers"):
        pickle.dumps(writer)


def test_files_appear_when_they_are_closed_or_dropped(tmp_path):
    writer = MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w")
    writer.write_idx(0, b"x")
    assert not (tmp_path / "a.rec").exists()
    del writer
    assert MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "r").read_idx(0) == b"x"
    code = "import sys; from asyncloader.recordio import MXRecordIO; w = MXRecordIO(sys.argv[1], 'w'); w.write(b'y')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "b.rec")], check=True)
    assert MXRecordIO(str(tmp_path / "b.rec"), "r").read() == b"y"


def test_an_exception_in_a_with_block_leaves_the_old_files(files, tmp_path):
    def write_half() -> None:
        with MXIndexedRecordIO(*files, "w") as writer:
            writer.write_idx(0, b"x")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        write_half()
    assert _all_right(MXIndexedRecordIO(*files, "r"))
    assert sorted(os.listdir(tmp_path)) == ["set.idx", "set.rec"]


def test_writing_to_a_closed_writer_is_refused(tmp_path):
    writer = MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w")
    writer.close()
    for ask in (lambda: writer.write(b"x"), lambda: writer.write_idx(1, b"x"), writer.tell):
        with pytest.raises(ValueError, match="is closed"):
            ask()


def test_errors_at_opening(files, tmp_path):
    with pytest.raises(ValueError, match="Invalid flag a"):
        MXRecordIO(files[1], "a")
    with pytest.raises(MissingFileError):
        MXRecordIO(str(tmp_path / "none.rec"), "r")
    with pytest.raises(MissingFileError, match=r"none\.idx"):
        MXIndexedRecordIO(str(tmp_path / "none.idx"), files[1], "r")
    Path(files[0]).write_text("cat\t0\n")
    with pytest.raises(IndexFileError, match="key_type=str"):
        MXIndexedRecordIO(*files, "r")
    assert MXIndexedRecordIO(*files, "r", key_type=str).keys == ["cat"]


def test_a_damaged_record_is_named_by_its_offset(files):
    offset = int(Path(files[0]).read_text().splitlines()[100].split("\t")[1])
    with open(files[1], "r+b") as file:
        file.seek(offset)
        file.write(b"\0")
    reader = MXIndexedRecordIO(*files, "r")
    with pytest.raises(CorruptRecordError, match=f"byte offset {offset}"):
        reader.read_idx(reader.keys[100])
