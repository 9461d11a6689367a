"""Which sample comes when: orders, shards, batches and where a consumer is in them. Nothing here reads or waits."""

from .basic import BlockShuffleSampler, RandomSampler, SequentialSampler, SubsetSampler
from .bucket import BucketSampler
from .mixture import MixtureSampler
from .ordered import OrderedSampler
from .orders import Order
from .passes import Pass
from .plan import PlannedBatch
from .randomness import sample_rng, sample_seed
from .schedule import Schedule
from .shard import detect_shard
from .weighted import WeightedSampler

__all__ = [
    "BlockShuffleSampler",
    "BucketSampler",
    "MixtureSampler",
    "Order",
    "OrderedSampler",
    "Pass",
    "PlannedBatch",
    "RandomSampler",
    "Schedule",
    "SequentialSampler",
    "SubsetSampler",
    "WeightedSampler",
    "detect_shard",
    "sample_rng",
    "sample_seed",
]
