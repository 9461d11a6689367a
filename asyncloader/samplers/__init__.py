"""Which sample comes when: orders, shards, batches and where a consumer is in them. Nothing here reads or waits."""

from .ordered import OrderedSampler
from .orders import Order
from .passes import Pass
from .plan import PlannedBatch
from .randomness import sample_rng, sample_seed
from .schedule import Schedule
from .shard import detect_shard

__all__ = [
    "Order",
    "OrderedSampler",
    "Pass",
    "PlannedBatch",
    "Schedule",
    "detect_shard",
    "sample_rng",
    "sample_seed",
]
