"""Trains a face-recognition network with PyTorch on a set in the InsightFace layout, without MXNet.

python examples/faces_torch.py FOLDER     a folder with train.rec, train.idx and property
python examples/faces_torch.py            makes a small set of its own, of faces as a child draws them
"""

import io
import numbers
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn
from torch.utils.data import Dataset, default_collate

import asyncloader as al
import asyncloader.mx as mx  # the one line that was changed; it was: import mxnet as mx
from asyncloader.recordio import IRHeader, MXIndexedRecordIO, pack

EPOCHS, BATCH_SIZE, SIZE = 4, 32, 112


class FaceDataset(Dataset):
    """A dataset as face-recognition code has it, written against MXNet."""

    def __init__(self, folder: str) -> None:
        rec, idx = os.path.join(folder, "train.rec"), os.path.join(folder, "train.idx")
        self.imgrec = mx.recordio.MXIndexedRecordIO(idx, rec, "r")
        header, _ = mx.recordio.unpack(self.imgrec.read_idx(0))
        if header.flag > 0:
            self.imgidx = np.array(range(1, int(header.label[0])))
        else:
            self.imgidx = np.array(list(self.imgrec.keys))

    def __len__(self) -> int:
        return len(self.imgidx)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        header, img = mx.recordio.unpack(self.imgrec.read_idx(self.imgidx[index]))
        label = header.label
        if not isinstance(label, numbers.Number):
            label = label[0]
        sample = mx.image.imdecode(img).asnumpy()
        image = torch.from_numpy(sample).permute(2, 0, 1).float().div(127.5).sub(1)
        return image, torch.tensor(label, dtype=torch.long)


def network(people: int) -> nn.Module:
    """Make a network that tells people apart, far smaller than one for real faces."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (16, 32, 64):
        layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64 * 16, people))


def train(folder: str) -> None:
    """Train for a few epochs, and say how it goes."""
    torch.manual_seed(0)
    dataset = FaceDataset(folder)
    people = int(Path(folder, "property").read_text().split(",")[0])
    net = network(people)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    with al.DataLoader(dataset, BATCH_SIZE, shuffle=True, collate_fn=default_collate, num_workers=2) as loader:
        for epoch in range(EPOCHS):
            losses, right = 0.0, 0
            for images, labels in loader:
                scores = net(images)
                loss = nn.functional.cross_entropy(scores, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses += loss.item() * len(labels)
                right += int((scores.argmax(1) == labels).sum())
            print(f"epoch {epoch}: {len(dataset)} faces, loss {losses / len(dataset):.3f}, right {right}")


def make_set(folder: str, people: int = 8, pictures: int = 24) -> None:
    """Write a set in the InsightFace layout: a header record, the pictures, then a header for each person."""
    rng = np.random.default_rng(0)
    with MXIndexedRecordIO(os.path.join(folder, "train.idx"), os.path.join(folder, "train.rec"), "w") as writer:
        images_end = 1 + people * pictures
        writer.write_idx(0, pack(IRHeader(2, [images_end, images_end + people], 0, 0), b""))
        for number in range(people * pictures):
            person = number // pictures
            writer.write_idx(1 + number, pack(IRHeader(0, float(person), 1 + number, 0), draw(person, rng)))
        for person in range(people):
            first = 1 + person * pictures
            writer.write_idx(images_end + person, pack(IRHeader(2, [first, first + pictures], 0, 0), b""))
    Path(folder, "property").write_text(f"{people},{SIZE},{SIZE}")


def draw(person: int, rng: np.random.Generator) -> bytes:
    """Draw a face: each person has a colour, a width, eyes and a mouth of their own."""
    look = np.random.default_rng(person)
    skin, eye = (tuple(look.integers(60, 250, 3).tolist()) for _ in range(2))
    width, apart, mouth = look.uniform(28, 48), look.uniform(10, 20), look.uniform(8, 24)
    picture = Image.new("RGB", (SIZE, SIZE), tuple(rng.integers(0, 60, 3).tolist()))
    x, y = SIZE / 2 + rng.normal(0, 3), SIZE / 2 + rng.normal(0, 3)
    canvas = ImageDraw.Draw(picture)
    canvas.ellipse((x - width, y - 48, x + width, y + 48), fill=skin)
    for side in (-apart, apart):
        canvas.ellipse((x + side - 6, y - 18, x + side + 6, y - 6), fill=eye)
    canvas.ellipse((x - mouth, y + 18, x + mouth, y + 26), fill=(150, 20, 30))
    target = io.BytesIO()
    picture.save(target, "JPEG", quality=90)
    return target.getvalue()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as made:
            make_set(made)
            train(made)
