"""Which sample comes when: orders, shards, batches and where a consumer is in them. Nothing here reads or waits."""

from asyncloader.samplers.basic import BlockShuffleSampler, RandomSampler, SequentialSampler, SubsetSampler
from asyncloader.samplers.bucket import BucketSampler
from asyncloader.samplers.mixture import MixtureSampler
from asyncloader.samplers.ordered import OrderedSampler
from asyncloader.samplers.orders import Order
from asyncloader.samplers.passes import Pass
from asyncloader.samplers.plan import PlannedBatch
from asyncloader.samplers.randomness import sample_rng, sample_seed
from asyncloader.samplers.schedule import Schedule
from asyncloader.samplers.shard import detect_shard
from asyncloader.samplers.weighted import WeightedSampler

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
