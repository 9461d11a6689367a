"""Files read at an offset."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from asyncloader.errors import FileChangedError, LoaderClosedError, MissingFileError, ReadError
from asyncloader.storage import LocalFile


@pytest.fixture
def content() -> bytes:
    return np.random.default_rng(0).bytes(100_000)


@pytest.fixture
def path(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "names with blanks and ümläuts.bin"
    path.write_bytes(content)
    return path


def _descriptors_of(path: Path) -> int:
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return sum(os.path.exists(link) and os.path.samefile(link, path) for link in links)


def test_reads_what_is_at_an_offset(path, content):
    with LocalFile(path) as file:
        assert file.size == len(content)
        assert file.read(0, 0) == b""
        assert file.read(17, 1000) == content[17:1017]
        assert file.read(len(content) - 5, 5) == content[-5:]


@pytest.mark.parametrize("method", ["read_ranges", "read_joined"])
@pytest.mark.parametrize("size", [1, 300, 9000])
def test_reads_ranges_in_the_order_given(path, content, method, size):
    offsets = np.array([50_000, 7, 7, 90_000])
    with LocalFile(path) as file:
        pieces = getattr(file, method)(offsets, np.full(4, size))
    assert b"".join(pieces if isinstance(pieces, list) else [pieces]) == b"".join(
        content[o : o + size] for o in offsets
    )


@pytest.mark.parametrize(
    "read",
    [
        lambda file: file.read(59_990, 20),
        lambda file: file.read_ranges(np.array([0, 59_990]), np.array([10, 20])),
        lambda file: file.read_joined(np.array([0, 59_990]), np.array([10, 20])),
    ],
    ids=["read", "read_ranges", "read_joined"],
)
def test_a_file_that_was_cut_short_is_an_error_that_names_file_and_offset(path, read):
    with LocalFile(path) as file:
        os.truncate(path, 60_000)
        with pytest.raises(ReadError, match="cut short") as caught:
            read(file)
    assert caught.value.path == str(path)
    assert caught.value.offset == 59_990
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named_by_its_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingFileError, match="is not there") as caught:
        LocalFile("no such.rec")
    assert str(tmp_path / "no such.rec") in str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)


def test_a_file_below_a_file_is_missing(path):
    with pytest.raises(MissingFileError):
        LocalFile(path / "below.rec")


def test_a_directory_is_said_to_be_one(tmp_path):
    with pytest.raises(MissingFileError, match="is a directory"):
        LocalFile(tmp_path)


@pytest.mark.posix
def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ReadError, match="regular file"):
        LocalFile(tmp_path / "pipe")


def test_a_name_that_no_file_can_have_is_refused():
    with pytest.raises(ReadError, match="cannot be opened"):
        LocalFile("a\0b")


@pytest.mark.posix
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_readers_of_a_file_share_one_descriptor_until_the_last_is_closed(path, content):
    first, second = LocalFile(path), LocalFile(path)
    assert _descriptors_of(path) == 1
    first.close()
    assert second.read(5, 5) == content[5:10]
    second.close()
    assert _descriptors_of(path) == 0


def test_reading_from_a_closed_file_is_refused(path):
    file = LocalFile(path)
    file.close()
    file.close()
    with pytest.raises(LoaderClosedError):
        file.read(0, 1)
    with pytest.raises(LoaderClosedError):
        file.read_joined(np.array([0, 50]), np.array([1, 1]))


@pytest.mark.posix
def test_a_file_put_in_its_place_is_another_file(path, content, tmp_path):
    with LocalFile(path) as old:
        other = tmp_path / "other"
        other.write_bytes(b"new" * 50_000)
        os.replace(other, path)
        with LocalFile(path) as new:
            assert new.read(0, 3) == b"new"
            assert old.read(0, 3) == content[:3]


def test_pickled_it_is_opened_again_by_its_path(path, content):
    with LocalFile(path) as file:
        data = pickle.dumps(file)
    assert len(data) < 500
    with pickle.loads(data) as again:
        assert again.read(100, 50) == content[100:150]


@pytest.mark.parametrize("change", ["longer", "touched"])
def test_unpickling_says_that_the_file_has_changed(path, change):
    with LocalFile(path) as file:
        data = pickle.dumps(file)
        assert file.unchanged()
    if change == "longer":
        with path.open("ab") as end:
            end.write(b"x")
    else:
        os.utime(path, ns=(0, 12345))
    assert not file.unchanged()
    with pytest.raises(FileChangedError, match="has changed"):
        pickle.loads(data)


def test_unpickling_says_that_the_file_is_gone(path):
    with LocalFile(path) as file:
        data = pickle.dumps(file)
    path.unlink()
    assert not file.unchanged()
    with pytest.raises(MissingFileError):
        pickle.loads(data)


_INHERITED = """
import os, sys
wanted = os.stat(sys.argv[1])
for number in range(3, 256):
    try:
        if os.path.samestat(os.fstat(number), wanted):
            sys.exit(1)
    except OSError:
        continue
"""


@pytest.mark.posix
def test_programs_that_are_started_do_not_inherit_the_descriptor(path):
    command = [sys.executable, "-c", _INHERITED, str(path)]
    with LocalFile(path):
        assert subprocess.run(command, close_fds=False, check=False).returncode == 0


@pytest.mark.posix
@pytest.mark.allow_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_and_its_parent_both_go_on_reading(path, content):
    with LocalFile(path) as file:
        child = os.fork()
        if child == 0:
            right = all(file.read(o, 100) == content[o : o + 100] for o in range(0, 90_000, 1000))
            right = right and LocalFile(path).read(3, 3) == content[3:6]
            os._exit(0 if right else 1)
        assert all(file.read(o, 100) == content[o : o + 100] for o in range(500, 90_000, 1000))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_closing_while_others_read_gives_right_bytes_or_the_error(path, content, tmp_path):
    decoy = tmp_path / "decoy"
    decoy.write_bytes(bytes(len(content)))
    wrong: list[bytes] = []
    for _ in range(30):
        file = LocalFile(path)

        def read(file: LocalFile = file) -> None:
            try:
                while True:
                    data = file.read(1000, 5000)
                    if data != content[1000:6000]:
                        wrong.append(data)
            except LoaderClosedError:
                return

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.003)
        file.close()
        with LocalFile(decoy):  # takes the descriptor's number, were it free already
            for thread in threads:
                thread.join()
    assert not wrong


def test_announcing_ranges_changes_nothing(path, content):
    with LocalFile(path) as file:
        file.advise([(0, 4096), (90_000, 1 << 30)])
        assert file.read(0, 10) == content[:10]


_WITHOUT = """
import os, sys, threading
for name in ("pread", "preadv", "posix_fadvise"):
    if hasattr(os, name):
        delattr(os, name)
import numpy as np
from asyncloader.storage import LocalFile
content = open(sys.argv[1], "rb").read()
file = LocalFile(sys.argv[1])
file.advise([(0, 10)])
assert file.read_ranges(np.array([5, 700]), np.array([10, 20])) == [content[5:15], content[700:720]]
wrong = []
def read(seed):
    for offset in np.random.default_rng(seed).integers(0, 90_000, 300).tolist():
        if file.read(offset, 512) != content[offset:offset + 512]:
            wrong.append(offset)
threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
sys.exit(len(wrong))
"""


def test_threads_read_right_bytes_where_the_system_has_no_positional_read(path):
    assert subprocess.run([sys.executable, "-c", _WITHOUT, str(path)], check=False).returncode == 0
