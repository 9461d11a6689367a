from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from asyncloader.cli.payloads import SUFFIXES, inspect, picture_shape
from asyncloader.errors import DecodeError
from tests.cli.conftest import image_record, protobuf_field, sagemaker_record


def encoded(kind: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (7, 5), (10, 200, 30)).save(out, kind)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["jpeg", "png", "gif", "bmp", "tiff", "webp"])
def test_pictures_of_every_format_are_known_with_and_without_a_header(kind: str) -> None:
    picture = encoded(kind)
    bare, whole = inspect(picture), inspect(image_record([1, 2], 3, picture))
    assert (bare.kind, whole.kind) == (kind, kind)
    assert bare.labels is None
    assert whole.labels is not None
    assert whole.labels.tolist() == [1, 2]
    assert bytes(bare.data) == bytes(whole.data) == picture
    assert picture_shape(picture) == (5, 7)


def test_a_truncated_message_is_no_protobuf_record() -> None:
    message = sagemaker_record(2.5)
    assert inspect(message).kind == "protobuf"
    assert inspect(message[:-1]).kind == "bytes"
    assert inspect(message + b"\x07").kind == "bytes"
    assert inspect(protobuf_field(1, b"x" * 40) + protobuf_field(9, b"y")).kind == "bytes"


@given(st.one_of(st.binary(max_size=80), st.binary(max_size=60).map(lambda data: b"\x0a" + data)))
def test_any_bytes_are_of_some_kind_and_what_is_cut_off_is_a_header(payload: bytes) -> None:
    content = inspect(payload)
    assert content.kind in SUFFIXES
    assert payload.endswith(bytes(content.data))
    if content.labels is None:
        assert bytes(content.data) == payload
    else:
        assert content.labels.size == max(1, struct.unpack_from("<I", payload)[0])


@pytest.mark.filterwarnings("ignore:::PIL")
@given(st.sampled_from(["jpeg", "png", "gif", "bmp", "tiff", "webp"]), st.binary(max_size=200))
def test_a_header_that_cannot_be_read_is_an_error_of_ours(kind: str, rest: bytes) -> None:
    try:
        height, width = picture_shape(encoded(kind)[:16] + rest)
    except DecodeError:
        return
    assert height >= 0
    assert width >= 0
