"""``asyncloader info``: what is in a record file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from asyncloader.cli.arguments import Json, Record, Sheet
from asyncloader.cli.console import amount, facts, plural, print_json, say, size

if TYPE_CHECKING:
    from asyncloader.cli.survey import Survey
    from asyncloader.recordio.reader import RecordReader

__all__ = ["info"]

_BAR_WIDTH = 40
_LONGEST_KEY = 40


def info(rec: Record, json: Json = False, sheet: Sheet = None) -> None:
    """Show what is in a record file.

    Records, sizes, kinds of payload, labels and keys; of a large file, some
    thousand records spread over it are looked at.
    """
    from asyncloader.cli.records import find_index, open_reader
    from asyncloader.cli.survey import some_pictures, survey

    with open_reader(rec) as reader:
        found = survey(reader)
        report = _report(reader, found, find_index(rec))
        if sheet is not None:
            from asyncloader.cli.sheet import MOST, write_sheet

            report["sheet"] = write_sheet(sheet, *some_pictures(reader, MOST))
    if json:
        print_json(report)
    else:
        _print(report)


def _report(reader: RecordReader, found: Survey, index_path: str | None) -> dict[str, Any]:
    from asyncloader.cli.pictures import is_face_set
    from asyncloader.cli.survey import histogram

    sizes = sorted(found.sizes)
    return {
        "path": reader.path,
        "bytes": os.path.getsize(reader.path),
        "index": index_path,
        "records": len(reader),
        "looked_at": found.looked_at,
        "damaged": len(found.damaged),
        "first_damage": str(found.damaged[0]) if found.damaged else None,
        "layout": "insightface" if is_face_set(reader) else None,
        "kinds": dict(found.kinds.most_common()),
        "sizes": {
            "smallest": sizes[0] if sizes else None,
            "median": sizes[len(sizes) // 2] if sizes else None,
            "largest": sizes[-1] if sizes else None,
            "histogram": [{"from": low, "before": high, "records": n} for low, high, n in histogram(sizes)],
        },
        "pictures": _pictures(found),
        "labels": _labels(found),
        "keys": _keys(reader),
    }


def _pictures(found: Survey) -> dict[str, Any] | None:
    if not found.pictures:
        return None
    heights, widths = zip(*found.pictures, strict=True)
    (height, width), count = found.pictures.most_common(1)[0]
    return {
        "height": [min(heights), max(heights)],
        "width": [min(widths), max(widths)],
        "shapes": len(found.pictures),
        "most_common": {"height": height, "width": width, "records": count},
    }


def _labels(found: Survey) -> dict[str, Any]:
    finite = [label for label in found.labels if label == label and abs(label) != float("inf")]
    return {
        # One number in the header, or an array of so many after it.
        "shapes": {str([count] if count else []): n for count, n in found.label_counts.most_common()},
        "distinct": len(set(found.labels)),
        "lowest": min(finite, default=None),
        "highest": max(finite, default=None),
    }


def _keys(reader: RecordReader) -> dict[str, Any]:
    import numpy as np

    keys = reader.index.keys
    numbers = isinstance(keys, np.ndarray)
    return {
        "type": "integers" if numbers else "strings",
        "first": [reader.index.key(position) for position in range(min(3, len(keys)))],
        "last": reader.index.key(len(keys) - 1) if len(keys) else None,
        "consecutive": bool(numbers and len(keys) and (np.diff(keys) == 1).all()),
    }


def _print(report: dict[str, Any]) -> None:
    looked_at, records = report["looked_at"], report["records"]
    rows = [
        ("file", report["path"]),
        ("size", f"{plural(report['bytes'], 'byte')} ({size(report['bytes'])})"),
        ("index", report["index"] or "none beside it, so it was built by a scan; `asyncloader index` writes one"),
        ("records", amount(records)),
    ]
    if looked_at < records:
        rows.append(("looked at", f"{amount(looked_at)} records, spread over the file; what follows is of these"))
    if report["layout"]:
        rows.append(("layout", "face recognition, as InsightFace has it: open it with FaceRecordDataset"))
    if looked_at:
        rows.append(
            ("payloads", ", ".join(f"{amount(count)} {kind}" for kind, count in report["kinds"].items()) or "-")
        )
        rows += _picture_rows(report["pictures"]) + _label_rows(report["labels"]) + _key_rows(report["keys"], records)
    if report["damaged"]:
        rows.append(("damaged", f"{plural(report['damaged'], 'record')}; `asyncloader verify` lists all. The first:"))
        rows.append(("", report["first_damage"]))
    facts(rows)
    if report["sizes"]["histogram"]:
        _print_histogram(report["sizes"])
    if "sheet" in report:
        say()
        say(f"Contact sheet: {report['sheet']}")


def _picture_rows(pictures: dict[str, Any] | None) -> list[tuple[str, str]]:
    if pictures is None:
        return []
    common = pictures["most_common"]
    text = f"{common['width']} x {common['height']} pixels"
    if pictures["shapes"] > 1:
        (low, high), (narrow, wide) = pictures["height"], pictures["width"]
        text = f"{narrow} to {wide} pixels wide, {low} to {high} high; most often {text}"
    return [("pictures", text)]


def _label_rows(labels: dict[str, Any]) -> list[tuple[str, str]]:
    if not labels["shapes"]:
        return []
    shapes = ", ".join(
        f"{amount(count)} with {'one number' if shape == '[]' else 'an array of ' + shape[1:-1]}"
        for shape, count in labels["shapes"].items()
    )
    if labels["lowest"] is not None:
        shapes += f"; {plural(labels['distinct'], 'value')} from {labels['lowest']:g} to {labels['highest']:g}"
    return [("labels", shapes)]


def _key_rows(keys: dict[str, Any], records: int) -> list[tuple[str, str]]:
    shown = ", ".join(map(_short, keys["first"]))
    if records > len(keys["first"]):
        shown += f" ... {_short(keys['last'])}"
    return [("keys", f"{keys['type']}: {shown}" + (", consecutive" if keys["consecutive"] else ""))]


def _short(key: int | str) -> str:
    text = str(key)
    return text if len(text) <= _LONGEST_KEY else text[:_LONGEST_KEY] + ".."


def _print_histogram(sizes: dict[str, Any]) -> None:
    bars = sizes["histogram"]
    say()
    say(
        f"Bytes a record: {amount(sizes['smallest'])} to {amount(sizes['largest'])}, median {amount(sizes['median'])}",
        "bold",
    )
    most = max(bar["records"] for bar in bars)
    width = max(len(amount(bar["before"])) for bar in bars)
    counts = max(len(amount(bar["records"])) for bar in bars)
    for bar in bars:
        length = -(-bar["records"] * _BAR_WIDTH // most)
        bounds = f"{amount(bar['from']):>{width}} - {amount(bar['before']):>{width}}"
        say(f"  {bounds}  {amount(bar['records']):>{counts}}  {'#' * length}".rstrip())
