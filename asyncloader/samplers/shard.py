"""Which of how many ranks this process is, as a launcher says it in the environment."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["detect_shard"]

_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI's mpirun
)


def detect_shard(environ: Mapping[str, str]) -> tuple[int, int]:
    """Read the rank and the world size that torchrun or Open MPI set.

    Parameters
    ----------
    environ : mapping
        Such as ``os.environ``. What torchrun sets is looked at first.

    Returns
    -------
    rank, world_size : int
        ``0, 1`` when no launcher set anything.

    Raises
    ------
    ValueError
        Only one of the two is set, one is not an integer, or they do not fit each other.
    """
    for rank_name, size_name in _LAUNCHERS:
        if rank_name not in environ and size_name not in environ:
            continue
        rank, world_size = _read(environ, rank_name, size_name), _read(environ, size_name, rank_name)
        if not 0 <= rank < world_size:
            raise ValueError(
                f"the environment has {rank_name}={rank} and {size_name}={world_size}; ranks go from 0 to the size "
                "less one; correct them, or give rank and world_size to the loader"
            )
        return rank, world_size
    return 0, 1


def _read(environ: Mapping[str, str], name: str, other: str) -> int:
    text = environ.get(name)
    if text is None:
        raise ValueError(
            f"the environment has {other} but no {name}; set both, or none, or give rank and world_size to the loader"
        )
    if not (text.strip().isascii() and text.strip().isdigit()) or len(text) > 18:
        raise ValueError(
            f"the environment has {name}={text[:60]!r}, not a whole number; "
            "correct it, or give rank and world_size to the loader"
        )
    return int(text)
