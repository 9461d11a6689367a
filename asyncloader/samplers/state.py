"""The state of a schedule as a plain dict, and back, with a check of everything in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from asyncloader.errors import StateError
from asyncloader.samplers.ranges import RangeSet

__all__ = ["VERSION", "Progress", "Setting", "check_setting", "progress_from_dict", "progress_to_dict"]

VERSION = 1
_LARGEST = (1 << 63) - 1

Setting: TypeAlias = int | str | bool | None


@dataclass
class Progress:
    """Where in its epoch a consumer is.

    Attributes
    ----------
    epoch : int
        The epoch.
    world_size : int
        Ranks among which the batches are cut.
    given : RangeSet
        Numbers of the batches that were given, on this rank.
    taken : RangeSet
        Places in the epoch's order that were given, by all ranks, before the batches were cut as they are now: the
        world size was another then.
    carry : list
        Positions left over by the pass before, which come before the epoch's own.
    """

    epoch: int
    world_size: int
    given: RangeSet = field(default_factory=RangeSet)
    taken: RangeSet = field(default_factory=RangeSet)
    carry: list[object] = field(default_factory=list)


def progress_to_dict(progress: Progress, settings: Mapping[str, Setting]) -> dict[str, object]:
    """Write a progress, and the settings that it is true for, as a dict that JSON can hold.

    Parameters
    ----------
    progress : Progress
        Where the consumer is.
    settings : mapping
        What must be the same when the state is loaded.

    Returns
    -------
    dict
        ``version``; the settings; ``epoch``; ``world_size``; ``batches``: every batch with a smaller number was given;
        ``later_batches``: ranges ``[first, past the last]`` of larger numbers that were given too; ``earlier_samples``:
        ranges of places in the epoch that were given while the world size was another; ``rollover``: positions left
        over by the pass before.
    """
    first = progress.given.first_missing()
    return {
        "version": VERSION,
        "epoch": progress.epoch,
        **settings,
        "world_size": progress.world_size,
        "batches": first,
        "later_batches": [[start, stop] for start, stop in progress.given if start > first],
        "earlier_samples": [[start, stop] for start, stop in progress.taken],
        "rollover": list(progress.carry),
    }


def check_setting(state: Mapping[str, object], name: str, ours: Setting) -> None:
    """Refuse a state that was made with another setting than ours.

    Raises
    ------
    StateError
        The field is missing or differs.
    """
    theirs = _get(state, name)
    # 1 == True in Python; in a state they are not the same.
    if type(theirs) is not type(ours) or theirs != ours:
        raise StateError(
            f"the state does not fit this loader: its {name} is {_show(theirs)}, the loader's is {ours!r}; "
            f"make the loader with {name}={_show(theirs)}, or load a state that was saved with {name}={ours!r}"
        )


def progress_from_dict(state: Mapping[str, object], length: int | None) -> Progress:
    """Read what `progress_to_dict` wrote.

    Parameters
    ----------
    state : mapping
        The state; its settings are not looked at.
    length : int or None
        The dataset's length, to check positions against; None when they can be any objects.

    Raises
    ------
    StateError
        A field is missing, of the wrong type, or out of its range. What is made is never larger than the dict is.
    """
    given = RangeSet([(0, _integer(state, "batches", 0))])
    for start, stop in _ranges(state, "later_batches", after=given.stop):
        given.add(start, stop)
    return Progress(
        epoch=_integer(state, "epoch", 0),
        world_size=_integer(state, "world_size", 1),
        given=given,
        taken=RangeSet(_ranges(state, "earlier_samples", after=-1)),
        carry=_carry(state, length),
    )


def _get(state: Mapping[str, object], name: str) -> object:
    try:
        return state[name]
    except KeyError as error:
        raise StateError(
            f"the state has no {name!r}; load what state_dict() of a loader returned, unchanged"
        ) from error


def _integer(state: Mapping[str, object], name: str, smallest: int) -> int:
    value = _get(state, name)
    if type(value) is int and smallest <= value <= _LARGEST:
        return value
    raise _malformed(name, value, f"an integer from {smallest} to 2**63 - 1")


def _ranges(state: Mapping[str, object], name: str, after: int) -> list[tuple[int, int]]:
    value = _get(state, name)
    expected = "a list of pairs [start, stop] of integers that rise from pair to pair"
    if not isinstance(value, list | tuple):
        raise _malformed(name, value, expected)
    result = []
    for pair in value:
        if not (isinstance(pair, list | tuple) and len(pair) == 2):
            raise _malformed(name, value, expected)
        start, stop = pair
        if not (type(start) is int and type(stop) is int and after < start < stop <= _LARGEST):
            raise _malformed(name, value, expected)
        result.append((start, stop))
        after = stop
    return result


def _carry(state: Mapping[str, object], length: int | None) -> list[object]:
    value = _get(state, "rollover")
    if not isinstance(value, list | tuple):
        raise _malformed("rollover", value, "a list of positions")
    if length is not None:
        for position in value:
            if type(position) is not int or not 0 <= position < length:
                raise _malformed("rollover", value, f"a list of positions from 0 to {length - 1}")
    return list(value)


def _malformed(name: str, value: object, expected: str) -> StateError:
    return StateError(
        f"the state's {name!r} is {_show(value)}, but {expected} was expected; "
        "load what state_dict() of a loader returned, unchanged"
    )


def _show(value: object) -> str:
    """Write a value that can be anything, and of any size, into a message."""
    if type(value) is int and abs(value) > _LARGEST:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, str):
        return repr(value[:60]) + ("..." if len(value) > 60 else "")
    if value is None or isinstance(value, int | float):
        return repr(value)
    return f"a {type(value).__qualname__}"
