"""The type of a connection between two processes, which has another name on Windows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from typing import Any

    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection as Connection
    else:
        from multiprocessing.connection import Connection

__all__ = ["ProcessConnection"]

ProcessConnection: TypeAlias = "Connection[Any, Any]"
