"""A training loop in JAX: batches come on the device, one ahead, spread over all devices there are.

    python examples/jax_training.py

On a machine without accelerators, XLA_FLAGS=--xla_force_host_platform_device_count=4 makes four devices of the CPU.
"""

import argparse
import asyncio
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import asyncloader as al

CLASSES = 4


def make_pictures(count: int) -> al.ArrayDataset:
    """Small grey pictures, each with a bright bar in one of four places."""
    rng = np.random.default_rng(0)
    labels = rng.integers(CLASSES, size=count)
    pictures = rng.integers(60, size=(count, 16, 16), dtype=np.uint8)
    for picture, label in zip(pictures, labels, strict=True):
        picture[:, 4 * label : 4 * label + 4] += 100
    return al.ArrayDataset(pictures, labels)


def loss_of(weights: dict[str, jax.Array], pictures: jax.Array, labels: jax.Array) -> jax.Array:
    inputs = pictures.reshape(len(pictures), -1) / 255.0
    scores = inputs @ weights["matrix"] + weights["bias"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], axis=1))


@partial(jax.jit, donate_argnums=0)
def step(
    weights: dict[str, jax.Array], pictures: jax.Array, labels: jax.Array
) -> tuple[dict[str, jax.Array], jax.Array]:
    loss, slopes = jax.value_and_grad(loss_of)(weights, pictures, labels)
    return jax.tree.map(lambda weight, slope: weight - 0.5 * slope, weights, slopes), loss


async def train(count: int, epochs: int, workers: str) -> None:
    mesh = jax.make_mesh((jax.device_count(),), ("batch",))
    everywhere = NamedSharding(mesh, PartitionSpec())
    weights = {"matrix": jnp.zeros((16 * 16, CLASSES)), "bias": jnp.zeros(CLASSES)}
    weights = jax.device_put(weights, everywhere)
    loader = al.AsyncDataLoader(
        make_pictures(count),
        batch_size=16 * jax.device_count(),
        shuffle=True,
        last_batch="discard",  # what is left over may not go evenly among the devices
        workers=workers,
        output="jax",
        sharding=NamedSharding(mesh, PartitionSpec("batch")),
    )
    async with loader:
        for epoch in range(epochs):
            losses = []
            async for pictures, labels in loader:
                weights, loss = step(weights, pictures, labels)
                losses.append(loss)
            print(f"epoch {epoch}: {len(losses)} batches on {jax.device_count()} devices, loss {np.mean(losses):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=4096)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", choices=["threads", "processes"], default="threads")
    options = parser.parse_args()
    asyncio.run(train(options.count, options.epochs, options.workers))
