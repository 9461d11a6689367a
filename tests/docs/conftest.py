"""A folder to run samples in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ImageRecords
from tests.docs.sets import make_files


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image_records: ImageRecords) -> Path:
    """The files the samples name, in a folder of their own that is the current one."""
    make_files(tmp_path, image_records)
    monkeypatch.chdir(tmp_path)
    return tmp_path
