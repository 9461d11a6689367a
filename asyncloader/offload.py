"""Waiting, in a coroutine, for a function that blocks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

__all__ = ["in_thread"]


async def in_thread(function: Callable[[], object]) -> None:
    """Run a function in a thread of its own, which is gone afterwards; the loop's default pool would stay.

    Where no thread can be started the loop has to wait: what is closed must be closed all the same.
    """
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def run() -> None:
        try:
            function()
        except BaseException as error:
            loop.call_soon_threadsafe(done.set_exception, error)
        else:
            loop.call_soon_threadsafe(done.set_result, None)

    thread = threading.Thread(target=run, name="asyncloader-close", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        function()
        return
    try:
        await asyncio.shield(done)
    finally:
        if done.done():  # and not this coroutine cancelled
            thread.join()
