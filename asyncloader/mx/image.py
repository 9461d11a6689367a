"""mxnet.image's imdecode."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from asyncloader.mx.pixels import decode_pixels

__all__ = ["Image", "imdecode"]


class Image(np.ndarray):
    """Pixels: a numpy array with the method that MXNet's arrays have besides."""

    def asnumpy(self) -> NDArray[Any]:
        """Give the plain numpy array; it shares its memory with this one."""
        return self.view(np.ndarray)


def imdecode(
    buf: bytes | bytearray | memoryview | NDArray[np.uint8], flag: Literal[0, 1] = 1, to_rgb: bool | int = True
) -> Image:
    """Decode a picture.

    Parameters
    ----------
    buf : bytes-like or array of uint8
        A JPEG, a PNG, or any other format that Pillow reads.
    flag : {0, 1}
        1 gives colour, 0 grey.
    to_rgb : bool
        The order of the channels: RGB, or BGR as OpenCV has it.

    Returns
    -------
    Image
        Shape (height, width, 3), or (height, width, 1) for grey; dtype uint8.

    Raises
    ------
    DecodeError
        The bytes are empty, no picture, or damaged. (MXNet gives the rest of a JPEG that is cut short as grey.)
    ValueError
        ``buf`` is neither bytes nor an array of uint8, or ``flag`` is not 0 or 1.

    Notes
    -----
    The pixels are those of mxnet 1.9.1, but for what :func:`asyncloader.mx.pixels.decode_pixels` lists.
    """
    if flag not in (0, 1):
        raise ValueError(f"flag must be 1 for colour or 0 for grey, not {flag!r}")
    if isinstance(buf, np.ndarray):
        if buf.dtype != np.uint8:
            raise ValueError(f"buf must hold the bytes of a picture as uint8, not {buf.dtype}")
        buf = buf.tobytes()
    elif not isinstance(buf, bytes | bytearray | memoryview):
        raise ValueError(f"buf must be bytes or an array of uint8, not {type(buf).__name__}")
    return decode_pixels(buf, color=flag == 1, rgb=bool(to_rgb)).view(Image)
