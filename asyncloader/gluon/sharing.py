"""A dataset that threads can share: MXNet's objects that they cannot are found in it and replaced, in a copy.

Two kinds of objects are not fit for threads. A reader of records (``mxnet.recordio``) has one file position: a thread
that seeks moves it under another that is about to read. A hybrid block that is compiled builds its graph at the first
call, in its own attributes, and MXNet says of the compiled graph (``CachedOp``) that it is for one thread.
"""

from __future__ import annotations

import copy
import functools
import gc
import threading
import types
from collections import deque
from collections.abc import Iterable
from typing import Any

from asyncloader import recordio
from asyncloader.gluon.framework import mxnet

__all__ = ["fit_for_threads", "successor"]


def successor(
    reader: Any, indexed: type[recordio.MXIndexedRecordIO] = recordio.MXIndexedRecordIO
) -> recordio.MXRecordIO:
    """Open our reader on the file of one of MXNet's; the one given is left alone.

    Parameters
    ----------
    reader : mxnet.recordio.MXRecordIO
        What the dataset holds.
    indexed : type
        The class to use for one with an index.

    Raises
    ------
    TypeError
        The reader is of a class derived from MXNet's, or writes.
    """
    kind = type(reader)
    if kind not in (mxnet.recordio.MXRecordIO, mxnet.recordio.MXIndexedRecordIO) or reader.flag != "r":
        raise TypeError(
            f"the dataset holds a {kind.__module__}.{kind.__qualname__} opened with {reader.flag!r}, which workers "
            "cannot share: give it a MXIndexedRecordIO opened with 'r' (mxnet.recordio's or asyncloader.recordio's), "
            "or load inline with num_workers=0"
        )
    uri = reader.uri if isinstance(reader.uri, str) else reader.uri.value.decode()
    if kind is mxnet.recordio.MXRecordIO:
        return recordio.MXRecordIO(uri, "r")
    return indexed(reader.idx_path, uri, "r", key_type=reader.key_type)


def fit_for_threads(dataset: Any) -> Any:
    """Give the dataset for use by several threads.

    Parameters
    ----------
    dataset : object
        Not changed.

    Returns
    -------
    object
        The dataset itself where nothing in it has to be replaced. Else a copy: of the objects on the way to what is
        replaced, which share everything else with those given.

    Raises
    ------
    TypeError
        It holds a reader that cannot be replaced.
    """
    return _Rebuilder(dataset).rebuild(dataset)


class _ThreadsReader(recordio.MXIndexedRecordIO):
    """A reader where each thread has its own position, for a dataset that calls ``seek`` and then ``read``."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        self._here = threading.local()
        super().__init__(*arguments, **keywords)

    @property
    def _position(self) -> int:
        position: int = getattr(self._here, "position", 0)
        return position

    @_position.setter
    def _position(self, position: int) -> None:
        self._here.position = position


class _GuardedBlock:
    """A compiled block that is called by one thread at a time, while no other is: a graph is built at the first call.

    A call hands operations to MXNet's engine, which executes them later, several at once.
    """

    _calling = threading.Lock()

    def __init__(self, block: Any) -> None:
        self._block = block

    def __call__(self, *inputs: Any) -> Any:
        with self._calling:
            return self._block(*inputs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._block, name)


class _Rebuilder:
    """Copies what leads to an object that is to be replaced, and nothing else.

    What the garbage collector does not track (numbers, strings, tuples of them) leads nowhere, which spares looking at
    each name in a long list of files.
    """

    def __init__(self, root: Any) -> None:
        self._copies: dict[int, Any] = {}
        self._originals: dict[int, Any] = {}  # alive as long as their ids are used
        self._leading = self._find(root)

    def _find(self, root: Any) -> set[int]:
        """Give the ids of the objects from which one to be replaced can be reached."""
        parents: dict[int, list[int]] = {}
        leading: deque[int] = deque()
        waiting = [root]
        self._originals[id(root)] = root
        while waiting:
            thing = waiting.pop()
            if _is_replaced(thing):
                leading.append(id(thing))
                continue
            for part in _parts(thing):
                if not gc.is_tracked(part):
                    continue
                parents.setdefault(id(part), []).append(id(thing))
                if id(part) not in self._originals:
                    self._originals[id(part)] = part
                    waiting.append(part)
        found: set[int] = set()
        while leading:
            place = leading.popleft()
            if place not in found:
                found.add(place)
                leading.extend(parents.get(place, ()))
        return found

    def rebuild(self, thing: Any) -> Any:
        place = id(thing)
        if place not in self._leading:
            return thing
        if place not in self._copies:
            self._copies[place] = self._copy(thing)
        return self._copies[place]

    def _copy(self, thing: Any) -> Any:
        if isinstance(thing, mxnet.recordio.MXRecordIO):
            return successor(thing, _ThreadsReader)
        if isinstance(thing, mxnet.gluon.HybridBlock) and thing._active:
            return _GuardedBlock(thing)
        if isinstance(thing, tuple):
            return tuple.__new__(type(thing), map(self.rebuild, thing))
        if isinstance(thing, types.MethodType):
            return types.MethodType(self.rebuild(thing.__func__), self.rebuild(thing.__self__))
        if isinstance(thing, functools.partial):
            keywords = {name: self.rebuild(value) for name, value in thing.keywords.items()}
            return functools.partial(self.rebuild(thing.func), *map(self.rebuild, thing.args), **keywords)
        if isinstance(thing, types.FunctionType):
            return self._copy_function(thing)
        return self._copy_mutable(thing)

    def _copy_function(self, function: types.FunctionType) -> types.FunctionType:
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        clone = types.FunctionType(function.__code__, function.__globals__, function.__name__, None, cells or None)
        self._copies[id(function)] = clone  # before its parts, which may lead back to it
        clone.__defaults__ = self.rebuild(function.__defaults__)
        clone.__kwdefaults__ = self.rebuild(function.__kwdefaults__)
        clone.__qualname__, clone.__module__ = function.__qualname__, function.__module__
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            for content in _content(original):
                cell.cell_contents = self.rebuild(content)
        return clone

    def _copy_mutable(self, thing: Any) -> Any:
        clone = _shallow(thing)
        self._copies[id(thing)] = clone
        if isinstance(thing, list):
            clone[:] = map(self.rebuild, thing)
        elif isinstance(thing, dict):
            for key, value in thing.items():
                clone[key] = self.rebuild(value)
        for name, value in _attributes(thing):
            object.__setattr__(clone, name, self.rebuild(value))
        return clone


def _is_replaced(thing: Any) -> bool:
    return isinstance(thing, mxnet.recordio.MXRecordIO) or (
        isinstance(thing, mxnet.gluon.HybridBlock) and thing._active
    )


def _parts(thing: Any) -> Iterable[Any]:
    """Give the objects that a copy would have to have anew."""
    if isinstance(thing, types.ModuleType | type | mxnet.nd.NDArray):
        return ()
    if isinstance(thing, types.FunctionType):
        cells = [content for cell in thing.__closure__ or () for content in _content(cell)]
        return [*cells, thing.__defaults__, thing.__kwdefaults__]
    if isinstance(thing, types.MethodType):
        return (thing.__func__, thing.__self__)
    if isinstance(thing, functools.partial):
        return (thing.func, *thing.args, *thing.keywords.values())
    parts = [value for _, value in _attributes(thing)]
    if isinstance(thing, dict):
        parts.extend(thing.values())
    elif isinstance(thing, tuple | list):
        parts.extend(thing)
    return parts


def _attributes(thing: Any) -> list[tuple[str, Any]]:
    """Give an instance's attributes, those in slots too."""
    found = list(getattr(thing, "__dict__", {}).items())
    for cls in type(thing).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{cls.__name__.lstrip('_')}{name}"
            if name not in ("__dict__", "__weakref__") and hasattr(thing, name):
                found.append((name, getattr(thing, name)))
    return found


def _content(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # a name that was deleted, or is not assigned yet
        return ()


def _shallow(thing: Any) -> Any:
    try:
        clone = object.__new__(type(thing))  # without the class's own ways, which may open or close files
    except TypeError:
        return copy.copy(thing)
    return clone
