"""What the tests of asyncloader.gluon share."""

from __future__ import annotations

from typing import Any

WAYS = {
    "inline": {},
    "threads": {"num_workers": 4, "thread_pool": True},
    "processes": {"num_workers": 2},
}


def same(ours: Any, theirs: Any) -> bool:
    """Whether two batches are alike: structure, kinds of arrays, dtypes, shapes, values."""
    if isinstance(theirs, tuple | list):
        return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    if hasattr(theirs, "asnumpy"):
        a, b = ours.asnumpy(), theirs.asnumpy()
        return type(ours) is type(theirs) and a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    return type(ours) is type(theirs) and bool(ours == theirs)
