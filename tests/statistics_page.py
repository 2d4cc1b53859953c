"""A plugin for `make test-statistics`: what statistical tests measured, written to docs/results.

A test says what it measured with pytest's own `record_property(what, "0.93, at least 0.9")`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results" / "statistics.md"

HEAD = """\
# Statistical tests

Claims over many seeds, as `make test-statistics` measured them: the seeds are fixed, so another
run gives the same numbers up to the last digits. A small version of each is in `make test`.
Written by that command. A run of some of the tests leaves the lines of the others; the last column
is the commit that each was measured on.

| test | what | measured, required | | commit |
|---|---|---|---|---|
"""

found: list[tuple[str, str, str, str]] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when != "call":
        return
    name = report.nodeid.partition("tests/")[2] or report.nodeid
    outcome = {"passed": "holds", "failed": "**fails**"}.get(report.outcome, report.outcome)
    told = [(str(what), str(value)) for what, value in report.user_properties]
    if report.failed and not told:
        told = [("", "")]
    for what, value in told:
        found.append((name, what, value, outcome))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput") or not found:
        return
    own = commit()
    lines = [f"| `{name}` | {' | '.join(told)} | {own} |" for name, *told in found]
    measured = {name for name, *_ in found}
    for line in PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else ():
        name = line.split("`")[1] if line.startswith("| `test_") else ""
        if name not in measured and exists(name):
            lines.append(line)
    PAGE.write_text(HEAD + "\n".join(sorted(lines)) + "\n", encoding="utf-8")


def exists(name: str) -> bool:
    """Whether a test of this name is still there; not so for the page's own lines."""
    file, _, rest = name.partition("::")
    path = ROOT / "tests" / file
    return path.is_file() and f"def {rest.partition('[')[0]}(" in path.read_text(encoding="utf-8")


def commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "tests")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" with changes" if changed else "")
