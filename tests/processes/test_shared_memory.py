"""Where shared memory, descriptors, threads or processes are short: another way, or an error that says so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.processes.helpers import environment, run_python

pytestmark = pytest.mark.posix

DATA = """
import os, resource, sys, threading, warnings
import numpy as np
import asyncloader as al
from asyncloader.errors import AsyncLoaderError, LoaderWarning

class Data:
    def __init__(self, table=None):
        self.table = table
    def __len__(self): return 200
    def __getitem__(self, position):
        return np.full(50_000, position, np.int32), position

def check(loader):
    with loader:
        for epoch in range(2):
            batches = list(loader)
            assert [number for _, numbers in batches for number in numbers.tolist()] == list(range(200))
            for arrays, numbers in batches:
                assert (arrays == numbers[:, None]).all()

def heard(caught):
    return sorted({str(warning.message).split(";")[0].split(" (")[0] for warning in caught})
"""


def _run_with_small_shm(code: str, size: str, tmp_path: Path) -> tuple[str, str, int]:
    """Run a program as in a container: a small file system at /dev/shm, and no memfd."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs a mount namespace, and so root")
    hide = tmp_path / "site"
    hide.mkdir()
    (hide / "sitecustomize.py").write_text("import os\ndel os.memfd_create\n")
    (tmp_path / "program.py").write_text(DATA + textwrap.dedent(code))
    command = f'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$0" "$1"'
    path = os.pathsep.join([str(hide), environment()["PYTHONPATH"]])
    run = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, sys.executable, str(tmp_path / "program.py")],
        env=environment({"PYTHONPATH": path}),
        capture_output=True,
        text=True,
        timeout=50,
    )
    if "unshare failed" in run.stderr or "permission denied" in run.stderr:
        pytest.skip("mount namespaces are not allowed here")
    return run.stdout, run.stderr, run.returncode


SMALL = """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    check(al.DataLoader(Data(), 4, workers="processes", num_workers=2))
print(heard(caught), os.listdir("/dev/shm"))
"""


def test_a_small_dev_shm_makes_batches_come_another_way(tmp_path: Path) -> None:
    # A batch is 0.8 MB.
    out, err, status = _run_with_small_shm(SMALL, "1m", tmp_path)
    assert (err, status) == ("", 0)
    assert re.fullmatch(r"\['\d+ bytes of shared memory could not be allocated'\] \[\]\n", out)


def test_without_memfd_and_with_enough_shared_memory_nothing_is_said(tmp_path: Path) -> None:
    assert _run_with_small_shm(SMALL, "64m", tmp_path) == ("[] []\n", "", 0)


def test_a_dev_shm_that_fills_up_in_the_middle(tmp_path: Path) -> None:
    code = """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = al.DataLoader(Data(), 4, workers="processes", num_workers=2)
        kept = []
        for batch in loader:
            kept.append(batch)
            if len(kept) == 2:
                with open("/dev/shm/of somebody else", "wb") as file:
                    try:
                        while True:
                            file.write(bytes(65536))
                            file.flush()
                    except OSError:
                        pass
        for arrays, numbers in kept:
            assert (arrays == numbers[:, None]).all()
        assert [number for _, numbers in kept for number in numbers.tolist()] == list(range(200))
        loader.close()
    print(len(heard(caught)), os.listdir("/dev/shm"))
    """.replace("except OSError:\n                        pass", "except OSError: pass")
    out, err, status = _run_with_small_shm(code, "8m", tmp_path)
    assert (out, status) == ("1 ['of somebody else']\n", 0), err
    assert err == ""


def test_a_large_dataset_that_does_not_fit_in_dev_shm_is_sent(tmp_path: Path) -> None:
    code = """
    class Table(Data):
        def __getitem__(self, position):
            return self.table[position], position
    table = np.broadcast_to(np.arange(200)[:, None], (200, 5000)).copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoaderWarning)
        check(al.DataLoader(Table(table), 4, workers="processes", num_workers=2))
    print("done")
    """
    assert _run_with_small_shm(code, "1m", tmp_path) == ("done\n", "", 0)


@pytest.mark.parametrize("more", [0, 4, 8, 12, 20])
def test_with_hardly_any_descriptors_it_works_or_says_so(more: int) -> None:
    code = (
        DATA
        + f"""
held = len(os.listdir("/proc/self/fd" if os.path.exists("/proc/self/fd") else "/dev/fd")) + 3
resource.setrlimit(resource.RLIMIT_NOFILE, (held + 3 + {more}, held + 3 + {more}))
warnings.simplefilter("ignore", LoaderWarning)
try:
    check(al.DataLoader(Data(), 4, workers="processes", num_workers=2))
except (AsyncLoaderError, OSError) as error:  # the event loop's own descriptors may be what is missing
    print(type(error).__name__)
print("ended")
"""
    )
    out, err, status = run_python("-c", code)
    assert (err, status) == ("", 0)
    assert out.endswith("ended\n")
    if more >= 20:
        assert out == "ended\n"


def test_where_no_process_can_be_started_it_says_so() -> None:
    code = (
        DATA
        + """
al.DataLoader  # what has to be imported, while it can be read
import asyncloader.executors.processes
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
if os.geteuid() == 0:
    os.setuid(65534)  # root is not limited
try:
    check(al.DataLoader(Data(), 4, workers="processes", num_workers=2))
except (AsyncLoaderError, RuntimeError) as error:
    print(error)
"""
    )
    out, err, status = run_python("-c", code)
    assert status == 0, err
    assert "no thread could be started" in out or "can't start new thread" in out or "could not be started" in out
    assert "Traceback" not in err


def test_workers_that_may_not_map_memory_send_their_batches() -> None:
    code = (
        DATA
        + """
class Limited(Data):
    def __setstate__(self, state):
        self.__dict__ = state
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 30_000_000, -1))
    def __getitem__(self, position):
        return np.full(500_000, position, np.int32), position
loader = al.DataLoader(Limited(), 16, workers="processes", num_workers=1)
try:
    check(loader)
except (AsyncLoaderError, MemoryError) as error:
    print(type(error).__name__)
print("ended")
"""
    )
    if sys.platform != "linux":
        pytest.skip("needs /proc")
    out, err, status = run_python("-c", code)
    assert (err, status) == ("", 0)
    assert out.endswith("ended\n")
