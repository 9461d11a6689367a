"""How a sequence of items is cut into steps, and a step among ranks: arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Cut", "Division", "LastBatch", "ShortRanks"]

LastBatch = Literal["keep", "discard", "rollover"]
ShortRanks = Literal["pad", "drop"]


@dataclass(frozen=True)
class Division:
    """The cut of `total` items into steps, in each of which every rank takes `size` of them.

    Step after step takes ``size * world_size`` items in their order, so that after k steps exactly the first
    ``k * size * world_size`` were taken, whatever the world size is. Only the last step can be smaller; every rank
    takes the same number of items in it too.

    Parameters
    ----------
    total : int
        Number of items.
    size : int
        Items a rank takes in a step.
    world_size : int
        Number of ranks.
    last_batch : {"keep", "discard", "rollover"}
        Whether the items after the last full step make a smaller one, are left out, or are left for the next time.
    short_ranks : {"pad", "drop"}
        Whether items that do not go evenly among the ranks are filled up with the first items of the sequence, or left
        out.
    """

    total: int
    size: int
    world_size: int
    last_batch: LastBatch
    short_ranks: ShortRanks

    @property
    def per_step(self) -> int:
        """Items that all ranks together take in a full step."""
        return self.size * self.world_size

    @property
    def per_rank(self) -> int:
        """Items of each rank, those of an incomplete step included."""
        up = self.world_size - 1 if self.short_ranks == "pad" else 0
        return (self.total + up) // self.world_size

    @property
    def steps(self) -> int:
        """Number of steps, the same on every rank."""
        if self.last_batch == "rollover":
            return self.total // self.per_step
        up = self.size - 1 if self.last_batch == "keep" else 0
        return (self.per_rank + up) // self.size

    @property
    def used(self) -> int:
        """Items handed out in all steps to all ranks, those filled up included."""
        if self.last_batch == "rollover":
            return self.steps * self.per_step
        return min(self.per_rank, self.steps * self.size) * self.world_size

    @property
    def padded(self) -> int:
        """Items handed out twice, to fill up short ranks."""
        return max(self.used - self.total, 0)

    @property
    def dropped(self) -> int:
        """Items handed out to nobody, now or later."""
        return 0 if self.last_batch == "rollover" else max(self.total - self.used, 0)

    @property
    def left(self) -> tuple[int, int]:
        """The range of items that are left for the next time."""
        return (self.used if self.last_batch == "rollover" else self.total), self.total

    def part(self, step: int, rank: int) -> tuple[int, int]:
        """Give the range of items of one rank in one step; what lies past `total` is to be filled up."""
        start = step * self.per_step
        size = self.size if start + self.per_step <= self.used else (self.used - start) // self.world_size
        return start + rank * size, start + (rank + 1) * size


@dataclass(frozen=True)
class Cut:
    """How sequences of any length are cut, and whose part of each step it is.

    Parameters
    ----------
    size, world_size, last_batch, short_ranks
        As in `Division`.
    rank : int
        Who takes a part.
    """

    size: int
    rank: int
    world_size: int
    last_batch: LastBatch
    short_ranks: ShortRanks

    @property
    def per_step(self) -> int:
        """Items that all ranks together take in a full step."""
        return self.size * self.world_size

    def divide(self, total: int) -> Division:
        """Cut a sequence of `total` items."""
        return Division(total, self.size, self.world_size, self.last_batch, self.short_ranks)
