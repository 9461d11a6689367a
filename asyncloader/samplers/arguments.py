"""Checks of arguments that several samplers take."""

from __future__ import annotations

import operator

import numpy as np

__all__ = ["check_choice", "check_integer"]


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it is one of {', '.join(map(repr, choices))}")


def check_integer(name: str, value: int, smallest: int, end: int) -> int:
    """Give `value` as an int, if it is an integer from `smallest` up to but not `end`.

    Raises
    ------
    TypeError
        It is not an integer; a bool is not.
    ValueError
        It is out of the range.
    """
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}; it is an integer")
    integer = operator.index(value)
    if not smallest <= integer < end:
        raise ValueError(f"{name} is {integer}; it is from {smallest} to {end - 1}")
    return integer
