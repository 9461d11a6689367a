"""The example of a service: it trains, answers meanwhile, and ends when it is told to."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg

EXAMPLE = Path(__file__).parents[2] / "examples" / "inference_service.py"

pytestmark = pytest.mark.posix


@pytest.fixture
def service() -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-W", "error", str(EXAMPLE), "--epochs", "200"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(" ")[2])
            yield process, port
        finally:
            process.kill()


def ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def picture(channel: int) -> bytes:
    pixels = np.full((24, 40, 3), 30, np.uint8)
    pixels[..., channel] = 200
    return simplejpeg.encode_jpeg(pixels)


def test_it_answers_while_it_trains_and_stops_when_told(service: tuple[subprocess.Popen[str], int]) -> None:
    process, port = service
    seen = []
    while not seen or seen[-1] < 3000:
        status, answer = ask(port, "GET", "/progress")
        assert status == 200
        seen.append(answer["seen"])
    assert seen == sorted(seen)
    assert len(set(seen)) > 3  # training went on between the answers
    for channel in range(3):
        status, answer = ask(port, "POST", "/classify", picture(channel))
        assert (status, answer["class"]) == (200, channel)
    assert ask(port, "POST", "/classify", b"no picture")[0] == 400
    assert ask(port, "POST", "/classify", b"")[0] == 413
    assert ask(port, "GET", "/nothing")[0] == 404
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "stopped after" in out
    assert err == ""
