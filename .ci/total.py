"""Add up what the sessions of nox did, and print it as one line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

NOX = Path(__file__).parents[1] / ".nox"


def outcomes(results: Path) -> Counter[str]:
    """Count a session's tests by outcome, from pytest's JUnit file; no file, no tests."""
    if not results.exists():
        return Counter()
    count = Counter[str]()
    for suite in ElementTree.parse(results).iter("testsuite"):
        failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
        skipped = int(suite.attrib["skipped"])
        count += Counter(failed=failed, skipped=skipped, passed=int(suite.attrib["tests"]) - failed - skipped)
    return count


def failures(results: Path) -> Iterator[str]:
    """Give the name of each test that failed, and how its message begins."""
    if not results.exists():
        return
    for case in ElementTree.parse(results).iter("testcase"):
        for outcome in case:
            if outcome.tag in ("failure", "error"):
                message = " ".join(outcome.attrib.get("message", "").split())
                yield f"{case.attrib['classname']}::{case.attrib['name']}: {message[:300]}"


def main() -> None:
    total = Counter[str]()
    for session in json.loads((NOX / "report.json").read_text(encoding="utf-8"))["sessions"]:
        results = NOX / "results" / f"{session['name']}.xml"
        count = outcomes(results)
        if session["result"] == "failed" and not count["failed"]:
            count["failed"] = 1  # a linter, an installation, or a test that took pytest down with it
        print(f"{session['name']}: {session['result']}, {count['passed']} tests passed")
        for failure in failures(results):
            print(f"  {failure}")
        total += count
    print(f"asyncloader: {total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")


if __name__ == "__main__":
    main()
