"""The command ``asyncloader``: one file a command, registered in :mod:`asyncloader.cli.app`."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, and exit with its status."""
    try:
        from asyncloader.cli.app import run

        run()
    except KeyboardInterrupt:  # before the commands were loaded, or after one had ended
        sys.exit(130)
