"""Trains a small network with MXNet Gluon on an image record file.

gluon_before.py is a script as they are; in gluon_after.py one import line is changed, and nothing else.

python examples/gluon_before.py train.rec
python examples/gluon_after.py train.rec
"""
# ruff: noqa: NPY002 - MXNet takes its order from this generator
# isort: off

import sys

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon.data import DataLoader
from mxnet.gluon.data.vision import ImageRecordDataset, transforms

CLASSES, BATCH_SIZE, EPOCHS = 10, 16, 3


def main(path: str) -> None:
    np.random.seed(0)  # the order
    mx.random.seed(0)  # the weights

    augment = transforms.Compose([transforms.Resize(32), transforms.ToTensor(), transforms.Normalize(0.5, 0.25)])
    dataset = ImageRecordDataset(path).transform_first(augment)
    loader = DataLoader(dataset, BATCH_SIZE, shuffle=True, last_batch="rollover", num_workers=2)

    context = mx.cpu()
    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Conv2D(16, 3, strides=2, activation="relu"),
        gluon.nn.GlobalAvgPool2D(),
        gluon.nn.Dense(CLASSES),
    )
    net.initialize(mx.init.Xavier(), ctx=context)
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

    for epoch in range(EPOCHS):
        losses, seen = 0.0, 0
        for batch in loader:
            images, labels = (part.as_in_context(context) for part in batch)
            with autograd.record():
                loss = loss_of(net(images), labels)
            loss.backward()
            trainer.step(len(labels))
            losses += loss.sum().asscalar()
            seen += len(labels)
        print(f"epoch {epoch}: {seen} images, loss {losses / seen:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
