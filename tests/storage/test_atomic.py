"""Files that appear when they are whole."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from asyncloader.errors import MissingFileError
from asyncloader.storage import AtomicFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    return path


@pytest.mark.parametrize("sync", [False, True])
def test_the_old_file_stays_until_commit(path, sync):
    file = AtomicFile(path)
    file.write(b"new" * 1_000_000)
    assert path.read_bytes() == b"old"
    file.commit(sync=sync)
    assert path.read_bytes() == b"new" * 1_000_000
    assert file.written == 3_000_000
    assert os.listdir(path.parent) == ["file"]


def test_an_exception_leaves_the_old_file_and_nothing_else(path):
    def write_half() -> None:
        with AtomicFile(path) as file:
            file.write(b"x" * 2_000_000)
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        write_half()
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["file"]


def test_an_object_that_is_dropped_leaves_nothing(path):
    AtomicFile(path).write(b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["file"]


def test_writing_after_the_end_is_refused(path):
    file = AtomicFile(path)
    file.commit()
    file.commit()
    file.discard()
    with pytest.raises(ValueError, match="is closed"):
        file.write(b"x")
    assert path.read_bytes() == b""


@pytest.mark.posix
def test_until_then_only_the_owner_can_read_it(path):
    with AtomicFile(path):
        [temporary] = set(os.listdir(path.parent)) - {"file"}
        assert stat.S_IMODE((path.parent / temporary).stat().st_mode) == 0o600


@pytest.mark.posix
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_mode_the_umask_gives(tmp_path, umask):
    before = os.umask(umask)
    try:
        with AtomicFile(tmp_path / "new"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o666 & ~umask


@pytest.mark.posix
def test_a_replaced_file_keeps_its_mode_and_a_link_stays_a_link(path, tmp_path):
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(path)
    with AtomicFile(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_missing_folder_and_a_directory_are_clear_errors(tmp_path):
    with pytest.raises(MissingFileError, match="make it first") as caught:
        AtomicFile(tmp_path / "none" / "file")
    assert str(tmp_path / "none" / "file") in str(caught.value)
    with pytest.raises(MissingFileError, match="is a directory"):
        AtomicFile(tmp_path)


@pytest.mark.posix
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
def test_a_full_disk_is_the_systems_error_and_leaves_the_old_file(path):
    file = AtomicFile(path)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, file.descriptor)
    os.close(full)
    file.write(b"x")
    with pytest.raises(OSError, match="No space"):
        file.commit()
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.posix
def test_a_kill_leaves_the_old_file(path):
    code = (
        "import sys, os, signal\nfrom asyncloader.storage import AtomicFile\n"
        "file = AtomicFile(sys.argv[1])\nfile.write(b'new' * 1000000)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    result = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert result.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"


@pytest.mark.posix
@pytest.mark.allow_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_neither_commits_nor_removes_nor_repeats(path):
    file = AtomicFile(path)
    file.write(b"parent")
    child = os.fork()
    if child == 0:
        file.commit()
        del file
        os._exit(0)
    os.waitpid(child, 0)
    assert path.read_bytes() == b"old"
    file.commit()
    assert path.read_bytes() == b"parent"
