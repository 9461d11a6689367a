"""In a Jupyter kernel, classes of the notebook work in the workers, and nothing is run again there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes.helpers import environment, gone, worker_processes
from tests.processes.test_entry_points import PROGRAM, RESULT

jupyter_client = pytest.importorskip("jupyter_client")
pytest.importorskip("ipykernel")
pytestmark = [pytest.mark.posix, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


class Notebook:
    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, cell: str) -> tuple[str, str, str]:
        """Run a cell; what it printed, what it wrote to stderr, and the name of the exception it ended with."""
        printed = {"stdout": "", "stderr": ""}

        def show(message: Any) -> None:
            if message["msg_type"] == "stream":
                printed[message["content"]["name"]] += message["content"]["text"]

        reply = self._client.execute_interactive(cell, output_hook=show, timeout=40)["content"]
        return printed["stdout"], printed["stderr"], reply.get("ename", "")


def test_a_notebook(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    manager = jupyter_client.KernelManager()
    manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel(env=environment({"RUNS": str(runs), "JUPYTER_PLATFORM_DIRS": "1"}), cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=40)
        notebook = Notebook(client)
        assert notebook.run(PROGRAM) == (RESULT + "\n", "", "")
        asynchronous = """
async with al.AsyncDataLoader(Data(), 4, workers="processes", num_workers=1) as fast:
    print([batch.y.tolist() async for batch in fast])
"""
        assert notebook.run(asynchronous) == ("[[0, 10, 20, 30], [40, 50, 60, 70], [80, 90, 100, 110]]\n", "", "")
        assert runs.read_text() == "run "
        workers = [worker.pid for worker in worker_processes(manager.provisioner.pid)]
        assert len(workers) == 2
        assert notebook.run("loader.close()") == ("", "", "")
        assert gone(workers)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
