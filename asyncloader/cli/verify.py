"""``asyncloader verify``: read all of a record file, and save what is whole of a damaged one."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asyncloader.cli.arguments import Force, Json, Record, refuse_to_overwrite
from asyncloader.cli.console import amount, plural, print_json, progress, say

if TYPE_CHECKING:
    from asyncloader.cli.checking import IndexCheck

__all__ = ["verify"]


def verify(
    rec: Record,
    decode: Annotated[bool, typer.Option("--decode", help="Decode each picture as well.")] = False,
    repair: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Save what is whole to this file, with an index.", show_default=False),
    ] = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Read all of a record file, and list what is damaged.

    After damage the check goes on at the next record that is whole. The index
    beside the file is held against it too. The exit status is 1 if anything is
    wrong, also where --repair could save the rest.

    --repair leaves out what is damaged, and with --decode what does not decode;
    the records keep their keys.
    """
    from asyncloader.cli.checking import IndexCheck, PictureCheck, check_file
    from asyncloader.cli.records import find_index
    from asyncloader.cli.repair import Repair
    from asyncloader.storage import LocalFile

    index_path = find_index(rec)
    index = IndexCheck(index_path) if index_path is not None else None
    with ExitStack() as stack:
        file = stack.enter_context(LocalFile(rec))
        saved = None
        if repair is not None:
            _check_target(rec, repair, force)
            saved = stack.enter_context(Repair(repair, index.lines if index is not None else None))
        pictures = stack.enter_context(PictureCheck()) if decode else None
        done = stack.enter_context(progress("Checking", file.size, in_bytes=True))
        offsets, damages, undecodable = check_file(file, pictures, saved.save if saved is not None else None, done)
    report: dict[str, Any] = {
        "path": file.path,
        "bytes": file.size,
        "records": len(offsets),
        "damaged": [
            {
                "offset": d.offset,
                "end": d.end,
                "reason": d.reason,
                "keys": index.keys_at(d.offset, d.end) if index else [],
            }
            for d in damages
        ],
        "undecodable": [
            {"offset": u.offset, "reason": u.reason, "keys": index.keys_at(u.offset, u.offset + 1) if index else []}
            for u in undecodable
        ],
        "decoded": decode,
        "index": _index_report(index, offsets, damages),
        "repaired": None,
    }
    if saved is not None:
        report["repaired"] = {"path": saved.path, "index": saved.index_path, "records": len(saved)}
    if json:
        print_json(report)
    else:
        _print(report)
    if damages or undecodable or (report["index"] or {}).get("faults"):
        raise typer.Exit(1)


def _check_target(rec: Path, target: Path, force: bool) -> None:
    from asyncloader.recordio.index import index_path_beside

    index_path = index_path_beside(target)
    if os.path.abspath(index_path) == os.path.abspath(target):
        raise typer.BadParameter("it must not end in .idx, which the index beside it does", param_hint="--repair")
    # Even with --force: what is damaged is kept, until someone has seen what came of it.
    if target.exists() and os.path.samefile(rec, target):
        raise typer.BadParameter("it is the damaged file itself; choose another name", param_hint="--repair")
    if os.path.abspath(index_path) == os.path.abspath(index_path_beside(rec)):
        raise typer.BadParameter(
            "its index would replace that of the damaged file; choose another name", param_hint="--repair"
        )
    if not force:
        refuse_to_overwrite(target, index_path)


def _index_report(index: IndexCheck | None, offsets: Any, damages: Any) -> dict[str, Any] | None:
    if index is None:
        return None
    return {
        "path": index.path,
        "faults": [index.fault] if index.fault else index.strays(offsets, damages),
        "unnamed_records": index.unnamed(offsets),
    }


def _print(report: dict[str, Any]) -> None:
    for damage in report["damaged"]:
        extent = plural(damage["end"] - damage["offset"], "byte")
        say(f"damaged at byte offset {damage['offset']} ({extent}{_keys(damage['keys'])}): {damage['reason']}", "red")
    for record in report["undecodable"]:
        say(f"not decodable at byte offset {record['offset']}{_keys(record['keys'])}: {record['reason']}", "red")
    index = report["index"]
    if index is not None:
        for fault in index["faults"]:
            say(fault if fault.startswith(index["path"]) else f"{index['path']}, {fault}", "red")
        if index["unnamed_records"]:
            say(f"{index['path']} does not name {plural(index['unnamed_records'], 'record')} of the file", "yellow")
    wrong = [
        text
        for text, count in (
            (plural(len(report["damaged"]), "damaged stretch", "damaged stretches"), len(report["damaged"])),
            (plural(len(report["undecodable"]), "record") + " not decodable", len(report["undecodable"])),
            (plural(len(index["faults"]) if index else 0, "fault") + " in the index", index and len(index["faults"])),
        )
        if count
    ]
    verdict = ", ".join(wrong) or ("no damage, and each picture decodes" if report["decoded"] else "no damage")
    say(
        f"{report['path']}: {plural(report['records'], 'whole record')}, {verdict}",
        "bold red" if wrong else "bold green",
    )
    repaired = report["repaired"]
    if repaired is not None:
        lost = sum(damage["end"] - damage["offset"] for damage in report["damaged"])
        left_out = len(report["undecodable"])
        say(
            f"{repaired['path']}: saved {plural(repaired['records'], 'record')}, with an index; "
            f"lost {plural(lost, 'damaged byte')}"
            + (f", left out {amount(left_out)} not decodable" if left_out else "")
        )


def _keys(keys: list[int | str]) -> str:
    if not keys:
        return ""
    shown = ", ".join(map(str, keys[:8])) + (f" and {amount(len(keys) - 8)} more" if len(keys) > 8 else "")
    return f", key{'s' if len(keys) > 1 else ''} {shown}"
