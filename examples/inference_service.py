"""A service that trains from ``async for`` and answers HTTP requests meanwhile, on one event loop.

    python examples/inference_service.py --port 8080
    curl localhost:8080/progress
    curl --data-binary @picture.jpg localhost:8080/classify

The pictures are read and decoded by the loader's threads, a request's picture by a thread of asyncio's, so that the
loop is free for the next request at any time. Without ``--records`` it trains on a small set that it makes first.
"""

import argparse
import asyncio
import json
import signal
import tempfile
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

import asyncloader as al
from asyncloader import recordio

CLASSES = 3
SIDE = 32
LARGEST_BODY = 1 << 20


def make_records(path: Path, count: int) -> None:
    """Pictures of one colour each, with some noise: red, green or blue."""
    rng = np.random.default_rng(0)
    with recordio.RecordWriter(path) as writer:
        for number in range(count):
            label = number % CLASSES
            picture = rng.integers(90, size=(SIDE, SIDE, 3), dtype=np.uint8)
            picture[..., label] += 120
            header = recordio.IRHeader(0, float(label), number, 0)
            writer.write(recordio.pack(header, simplejpeg.encode_jpeg(picture)))


class Classifier:
    """Softmax regression on a picture's mean colour."""

    def __init__(self) -> None:
        self.weights = np.zeros((4, CLASSES))
        self.seen = 0

    def scores(self, pictures: NDArray[np.uint8]) -> NDArray[np.float64]:
        return _features(pictures) @ self.weights

    def learn(self, pictures: NDArray[np.uint8], labels: NDArray[np.float64]) -> None:
        scores = self.scores(pictures)
        likely = np.exp(scores - scores.max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
        likely[np.arange(len(labels)), labels.astype(int)] -= 1
        self.weights -= 2.0 * _features(pictures).T @ likely / len(labels)
        self.seen += len(labels)


def _features(pictures: NDArray[np.uint8]) -> NDArray[np.float64]:
    colours = pictures.mean(axis=(1, 2)) / 255.0
    return np.hstack([colours, np.ones((len(colours), 1))])


class Service:
    """Answers requests with what the classifier knows by now."""

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            status, answer = await self._answer(reader)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            status, answer = HTTPStatus.BAD_REQUEST, {"error": str(error)}
        body = json.dumps(answer).encode()
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        try:
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        except ConnectionError:
            pass  # the client is gone, and wants no answer

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[HTTPStatus, dict[str, Any]]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request, *lines = head.split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        match request.split(" ")[:2]:
            case ["GET", "/progress"]:
                return HTTPStatus.OK, {"seen": self.classifier.seen}
            case ["POST", "/classify"]:
                size = int(headers.get("content-length", 0))
                if not 0 < size <= LARGEST_BODY:
                    return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"send 1 to {LARGEST_BODY} bytes"}
                picture = await asyncio.to_thread(al.decode_image, await reader.readexactly(size))
                scores = self.classifier.scores(picture[None])[0]
                return HTTPStatus.OK, {"class": int(scores.argmax()), "seen": self.classifier.seen}
        return HTTPStatus.NOT_FOUND, {"error": "there are GET /progress and POST /classify"}


async def main(records: Path, port: int, epochs: int) -> None:
    classifier = Classifier()
    server = await asyncio.start_server(Service(classifier).serve, "127.0.0.1", port)
    print(f"listening on port {server.sockets[0].getsockname()[1]}", flush=True)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    loader = al.AsyncDataLoader(al.ImageRecordDataset(records), batch_size=32, shuffle=True)
    async with server, loader, asyncio.TaskGroup() as tasks:
        training = tasks.create_task(train(classifier, loader, epochs))
        await stopped.wait()
        training.cancel()
    print(f"stopped after {classifier.seen} pictures", flush=True)


async def train(classifier: Classifier, loader: al.AsyncDataLoader, epochs: int) -> None:
    for epoch in range(epochs):
        async for pictures, labels in loader:
            classifier.learn(pictures, labels)
        print(f"epoch {epoch}: {classifier.seen} pictures seen", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=Path, help="a .rec file of JPEGs with labels 0, 1 and 2")
    parser.add_argument("--port", type=int, default=0, help="0 takes any that is free")
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.records
        if path is None:
            path = Path(folder, "colours.rec")
            make_records(path, 600)
        asyncio.run(main(path, options.port, options.epochs))
