"""Starting a worker process: spawned, without the user's main module, deaf to Ctrl-C.

multiprocessing's own spawn runs the parent's main script again in each child, which is why scripts need
``if __name__ == "__main__":`` there. Our workers get all they need by value, so they leave it out.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.process
import multiprocessing.spawn
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from typing import Any

from asyncloader.errors import WorkerError

__all__ = ["WorkerProcess", "start_process"]

#: Seconds to wait for the exit status of a process that has ended.
STATUS_TIMEOUT = 1.0

_patching = threading.Lock()


class WorkerProcess(SpawnProcess):
    """A spawned process that does not run the parent's main module."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        with _without_main():
            return SpawnProcess._Popen(process_obj)

    def kill(self) -> None:
        """End the process at once; nothing happens where it is finished already."""
        with contextlib.suppress(ValueError):
            super().kill()

    def finish(self, grace: float = 0.0) -> int | None:
        """Wait for the end, kill the process where that takes longer than ``grace`` seconds, and free what it held.

        Returns
        -------
        int or None
            The exit status as :attr:`exitcode` has it; None where another part of the program has taken it.
        """
        if not wait([self.sentinel], grace):
            self.kill()
            wait([self.sentinel])
        # Another thread that looks after its own children may take the status of ours: it leaves it where we find it a
        # moment later. A program that ignores SIGCHLD, or waits for any child, keeps it.
        deadline = time.monotonic() + STATUS_TIMEOUT
        self.join(STATUS_TIMEOUT)
        while (code := self.exitcode) is None and time.monotonic() < deadline:
            time.sleep(0.001)
        if code is None:
            self._popen.returncode = 255  # type: ignore[attr-defined]  # else it counts as running, and cannot be closed
        self.close()
        return code


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Leave the main module out of what this thread's child is told to prepare."""
    original = multiprocessing.spawn.get_preparation_data
    here = threading.get_ident()

    def without_main(name: str) -> dict[str, Any]:
        data = original(name)
        if threading.get_ident() == here:
            data.pop("init_main_from_name", None)
            data.pop("init_main_from_path", None)
        return data

    with _patching:
        multiprocessing.spawn.get_preparation_data = without_main
        try:
            yield
        finally:
            multiprocessing.spawn.get_preparation_data = original


def start_process(target: Callable[..., None], arguments: tuple[Any, ...], name: str) -> WorkerProcess:
    """Spawn a process that runs ``target(*arguments)``.

    Raises
    ------
    WorkerError
        The system, or the kind of process this is, does not allow it.
    """
    if multiprocessing.current_process().daemon:
        raise WorkerError(
            "this process is a daemon (a worker of a pool or of another loader), which may not have processes of its "
            "own: use workers='threads' here"
        )
    process = WorkerProcess(target=target, args=arguments, name=name, daemon=True)
    try:
        with _interrupts_blocked():
            process.start()
    except (OSError, RuntimeError) as error:
        raise WorkerError(
            f"a worker process could not be started ({error}): a limit on processes, descriptors or memory may be "
            "reached; use fewer workers, or workers='threads'"
        ) from error
    return process


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Let a child be born with SIGINT blocked: it would print a traceback before it can say that it ignores it."""
    if sys.platform == "win32":
        yield
    else:
        resource_tracker.ensure_running()  # it leaves the signal unblocked where it has to start
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


if hasattr(os, "register_at_fork"):

    def _disown() -> None:
        """Forget the workers in a child that the user forked, which would end them at its own exit."""
        children = multiprocessing.process._children  # type: ignore[attr-defined]
        for process in list(children):
            if isinstance(process, WorkerProcess):
                children.discard(process)

    os.register_at_fork(after_in_child=_disown)
