"""File names made of keys, safe on every system."""

from __future__ import annotations

import re

__all__ = ["FileNames"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
#: Names that Windows keeps for devices, whatever their ending.
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_LONGEST = 100


class FileNames:
    """Gives each key a file name of its own, in one folder: no separators, no dots in front, no device's name."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def name(self, key: int | str, suffix: str) -> str:
        """Give the name of a key's file.

        Parameters
        ----------
        key : int or str
            The key, from whatever file.
        suffix : str
            The ending, with its dot.
        """
        stem = _UNSAFE.sub("_", str(key))[:_LONGEST].rstrip(".")
        if not stem or stem[0] in ".-" or _DEVICES.fullmatch(stem):
            stem = "_" + stem
        candidate, number = stem, 1
        # Some systems do not tell upper case from lower.
        while candidate.lower() in self._taken:
            number += 1
            candidate = f"{stem}_{number}"
        self._taken.add(candidate.lower())
        return candidate + suffix
