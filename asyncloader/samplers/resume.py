"""Fitting a loaded progress to a schedule: it must lie within the epoch, and its number of ranks may have changed."""

from __future__ import annotations

from dataclasses import replace

from asyncloader.errors import StateError
from asyncloader.samplers.division import Cut
from asyncloader.samplers.state import Progress

__all__ = ["check_fits", "recut"]

_ENDLESS = 1 << 62  # more places than any sampler will ever give


def check_fits(progress: Progress, total: int, cut: Cut) -> None:
    """Refuse a progress that lies beyond the end of its epoch.

    Parameters
    ----------
    progress : Progress
        What a state says.
    total : int
        Samples that the epoch has left, without the batches given.
    cut : Cut
        How the schedule cuts them, but for the world size, which is that of `progress`.

    Raises
    ------
    StateError
        It lies beyond the end.
    """
    whole = total + progress.taken.size
    if progress.taken.stop > whole:
        raise StateError(
            f"the state's 'earlier_samples' go to {progress.taken.stop}, but epoch {progress.epoch} has only {whole} "
            "samples; load a state of this dataset and sampler"
        )
    steps = replace(cut, world_size=progress.world_size).divide(total).steps
    if progress.given.stop > steps:
        raise StateError(
            f"the state's 'batches' and 'later_batches' go to {progress.given.stop}, but epoch {progress.epoch} has "
            f"only {steps} batches; load a state of this dataset and sampler, saved with the same short_ranks"
        )


def recut(progress: Progress, total: int | None, cut: Cut) -> Progress:
    """Count the given batches as samples, so that what is left of the epoch can be cut for another number of ranks.

    Parameters
    ----------
    progress : Progress
        What a state says.
    total : int or None
        Samples that the epoch has left, without the batches given, where that is known.
    cut : Cut
        How what is left is to be cut.

    Raises
    ------
    StateError
        Batches were given out of order, so that what the ranks that did not save this state were given is not known.
    """
    if progress.world_size > 1 and progress.given.size > progress.given.first_missing():
        raise StateError(
            f"the state was saved with world_size {progress.world_size} and batches given out of order, so what the "
            f"other ranks were given is not known; resume with world_size={progress.world_size}, not {cut.world_size}"
        )
    per_step = replace(cut, world_size=progress.world_size).per_step
    rest = progress.taken.missing(_ENDLESS if total is None else total + progress.taken.size)
    taken = progress.taken.copy()
    for start, stop in progress.given:
        for places in rest.select(start * per_step, stop * per_step):
            taken.add(*places)
    return Progress(progress.epoch, cut.world_size, taken=taken, carry=progress.carry)
