"""Batches as arrays of JAX, on its devices: what ``output="jax"`` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

try:
    import jax
except ImportError as error:
    raise ImportError("asyncloader.jax needs JAX, which is not installed: pip install 'asyncloader[jax]'") from error

if TYPE_CHECKING:
    from jax.sharding import Sharding

__all__ = ["placer"]


def placer(sharding: Sharding | None = None) -> Callable[[NDArray[Any]], jax.Array]:
    """Give the function that puts an array on JAX's devices.

    Parameters
    ----------
    sharding : jax.sharding.Sharding, optional
        How each array is spread over the devices of this process; without it arrays go to JAX's default device.

    Returns
    -------
    callable
        From a numpy array to a ``jax.Array`` of its shape. The transfer goes on after it has returned. On the CPU the
        result may lie where the numpy array lies, which JAX holds for as long as the result is there. Without
        ``jax_enable_x64`` 64-bit types become 32-bit ones, as always in JAX.
    """

    def place(array: NDArray[Any]) -> jax.Array:
        try:
            return jax.device_put(array, sharding)
        except ValueError as error:
            raise ValueError(
                f"an array of shape {array.shape} cannot be spread over the devices as the sharding says ({error}); "
                "the first extent is the batch's: an incomplete last one is left out by last_batch='discard'"
            ) from error

    return place
