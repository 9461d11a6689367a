"""MXNet, or word of how to get it; imported here and nowhere else."""

from __future__ import annotations

__all__ = ["mxnet"]

try:
    import mxnet
except ImportError as error:
    raise ImportError(
        "asyncloader.gluon needs MXNet, which is not installed: pip install 'asyncloader[mxnet]' "
        "(mxnet 1.9.1 wants Python 3.11 and numpy 1.23.5)"
    ) from error
except AttributeError as error:  # numpy.bool, which numpy 1.24 removed
    raise ImportError(
        f"MXNet cannot be imported ({error}); mxnet 1.9.1 works with numpy 1.23.5 at most: "
        "pip install 'asyncloader[mxnet]'"
    ) from error
