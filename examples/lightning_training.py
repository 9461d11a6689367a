"""A training loop by Lightning, which takes our loader as it is: a subclass of PyTorch's.

    python examples/lightning_training.py

Only the import of DataLoader differs from a script for PyTorch's own.
"""

import argparse

import lightning
import torch
from torch.utils.data import Dataset

from asyncloader.torch import DataLoader

CLASSES = 4


class Bars(Dataset[tuple[torch.Tensor, int]]):
    """Small grey pictures, each with a bright bar in one of four places, made when they are asked for."""

    def __init__(self, length: int, seed: int) -> None:
        self.length = length
        self.seed = seed

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(self.seed + index)
        picture = torch.rand(16, 16, generator=generator)
        label = index % CLASSES
        picture[:, 4 * label : 4 * label + 4] += 1.0
        return picture, label


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16 * 16, CLASSES))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> torch.Tensor:
        pictures, labels = batch
        return torch.nn.functional.cross_entropy(self.layers(pictures), labels)

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> None:
        pictures, labels = batch
        right = (self.layers(pictures).argmax(dim=1) == labels).float().mean()
        self.log("accuracy", right, batch_size=len(labels))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2048)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--workers", choices=["processes", "threads"], default="processes")
    options = parser.parse_args()
    # Spawned workers import PyTorch at their start: they are worth keeping from one epoch to the next.
    workers = {"num_workers": options.num_workers, "workers": options.workers, "persistent_workers": True}
    training = DataLoader(Bars(options.count, seed=0), batch_size=32, shuffle=True, **workers)
    validation = DataLoader(Bars(options.count // 4, seed=10**6), batch_size=64, **workers)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=options.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), training, validation)
    print(f"accuracy {float(trainer.callback_metrics['accuracy']):.3f} after {trainer.global_step} steps")


if __name__ == "__main__":
    main()
