from __future__ import annotations

import pytest

from asyncloader.samplers import detect_shard


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}, (3, 4)),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, (0, 2)),
        ({"RANK": "1", "WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "9"}, (1, 2)),
    ],
)
def test_the_shard_is_what_the_launcher_says(environ: dict[str, str], expected: tuple[int, int]) -> None:
    assert detect_shard(environ) == expected


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"RANK": "1"}, "RANK but no WORLD_SIZE"),
        ({"WORLD_SIZE": "1"}, "WORLD_SIZE but no RANK"),
        ({"OMPI_COMM_WORLD_RANK": "1"}, "but no OMPI_COMM_WORLD_SIZE"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK='one', not a whole number"),
        ({"RANK": "", "WORLD_SIZE": "2"}, "not a whole number"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "not a whole number"),
        ({"RANK": "\u00b2", "WORLD_SIZE": "2"}, "not a whole number"),
        ({"RANK": "0", "WORLD_SIZE": "9" * 5000}, "not a whole number"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 and WORLD_SIZE=2"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "RANK=0 and WORLD_SIZE=0"),
    ],
)
def test_a_malformed_environment_is_an_error_that_names_the_variable(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        detect_shard(environ)
