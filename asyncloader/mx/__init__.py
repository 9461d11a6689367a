"""What face-recognition training code takes from MXNet, without MXNet.

``import asyncloader.mx as mx`` in place of ``import mxnet as mx`` gives ``mx.recordio`` and ``mx.image.imdecode``,
which is all that a PyTorch dataset needs to read a set in the InsightFace layout. Readers can be used from threads,
after a fork and in spawned processes.
"""

from asyncloader import recordio
from asyncloader.mx import image

__all__ = ["image", "recordio"]
