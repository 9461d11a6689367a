"""What the documentation lists is all there is, and what it links to exists."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import asyncloader as al
from asyncloader import errors, samplers
from asyncloader.stats import LoaderStats
from tests.docs.blocks import PAGES, ROOT

GUIDE = ROOT / "docs" / "guide.md"


def section(page: Path, title: str) -> str:
    """What stands under a heading of the second level."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def names_in_rows(text: str) -> list[str]:
    """The names in the first cells of tables."""
    cells = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(\w+)", cell)]


def test_the_guide_lists_every_argument_of_the_loader_in_order() -> None:
    parameters = list(inspect.signature(al.AsyncDataLoader).parameters.values())
    assert names_in_rows(section(GUIDE, "All arguments")) == [parameter.name for parameter in parameters]


@pytest.mark.parametrize("name", ["batch_size", "shuffle", "last_batch", "workers", "threads_per_worker", "seed"])
def test_the_guide_gives_an_arguments_default(name: str) -> None:
    default = inspect.signature(al.AsyncDataLoader).parameters[name].default
    row = next(line for line in section(GUIDE, "All arguments").splitlines() if line.startswith(f"| `{name}`"))
    shown = row.split("|")[2].strip(" `").strip('"')
    assert shown == str(default)


def test_the_guide_lists_all_that_stats_gives() -> None:
    assert sorted(names_in_rows(section(GUIDE, "Where the time goes"))) == sorted(LoaderStats.__annotations__)


def test_every_error_is_explained() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)`", text, re.MULTILINE)) == sorted(errors.__all__)


def test_every_sampler_is_explained() -> None:
    text = (ROOT / "docs" / "determinism.md").read_text(encoding="utf-8")
    offered = [name for name in samplers.__all__ if name.endswith("Sampler")]
    assert [name for name in offered if f"`{name}" not in text] == []


def anchors(page: Path) -> set[str]:
    """What GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


LINKS = [
    pytest.param(page, target, id=f"{page.name}:{target}")
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    if "://" not in target
]


@pytest.mark.parametrize(("page", "target"), LINKS)
def test_a_link_leads_to_a_page_and_a_heading(page: Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    linked = page.parent / path if path else page
    assert linked.is_file()
    assert not anchor or anchor in anchors(linked)


def test_each_example_is_a_file() -> None:
    named = {name for page in PAGES for name in re.findall(r"`(examples/\w+\.py)`", page.read_text(encoding="utf-8"))}
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []
