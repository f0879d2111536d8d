#!/usr/bin/env python3
"""Adds rows of counted tests to the table in tests/reliability/results.md, for launch/test --reliability.

    tests/reliability/results.py ROWS [--table FILE]

ROWS has a line of JSON for each kind of case that a test ran, written by counted.py. Shards and repeated runs of the
same commit on the same processor are added up. A line of an older commit remains until a newer one has as many cases of
the same kind.
"""

import argparse
import json
import os
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
COLUMNS = ("what", "held", "cases", "left out", "in all", "shares", "seconds", "processor", "commit")
HEAD = """# Results of the counted tests

Written by `launch/test --reliability` ([what it runs](../README.md#reliability)); a line is one kind of case.

- `held` of `cases` ended as they have to. `left out` are those that the machine could not run, with the reason in the
  test's output.
- `in all` is how many the whole count has, and `shares` which of them were run: `all`, or parts such as `2/8`. A share
  that stands twice was run twice, and its cases count twice. `some` means that fewer were asked for (`--cases`).
- A commit with a `+` had changes that were not committed.

"""


def processor():
    """Returns the name of the processor and the number of cores."""
    try:
        name = re.search(r"(?m)^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text())[1]
    except (OSError, TypeError):
        name = os.uname().machine
    return f"{name.strip()}, {os.cpu_count()} cores".replace("|", "/")


def commit():
    """Returns the commit of the tree, with a + if files were changed after it."""
    def git(*arguments):
        return subprocess.run(["git", "-C", SOURCE, *arguments], capture_output=True, text=True, check=False)
    found = git("rev-parse", "--short=12", "HEAD")
    if found.returncode:
        return "none"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!tests/reliability/results.md").stdout
    return found.stdout.strip() + ("+" if changed.strip() else "")


def line_of(row):
    """Converts a row of counted.py to a line of the table."""
    return {"what": row["what"].replace("|", "/"), "held": row["held"], "cases": row["cases"], "left out": row["left_out"],
            "in all": row["full"], "shares": row["share"], "seconds": row["seconds"], "processor": processor(),
            "commit": commit()}


def added(table, line):
    """Returns the table with the line, merged into one of the same kind, commit and processor."""
    def same(other, *names):
        return all(other[name] == line[name] for name in names)
    table = [dict(other) for other in table]
    before = [other for other in table if same(other, "what", "processor", "commit")]
    if before:
        for name in "held", "cases", "left out", "seconds":
            before[0][name] += line[name]
        before[0]["in all"] = line["in all"]
        before[0]["shares"] += " " + line["shares"]
        line = before[0]
    else:
        table.append(line)
    return [other for other in table
            if other is line or not same(other, "what") or same(other, "commit") or other["cases"] > line["cases"]]


def read(text):
    """Returns the lines of the table in a page."""
    rows = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in re.findall(r"(?m)^\|.*\|$", text)]
    table = [dict(zip(COLUMNS, row, strict=True)) for row in rows[2:]]
    for line in table:
        line.update({name: int(line[name]) for name in ("held", "cases", "left out", "in all")})
        line["seconds"] = float(line["seconds"])
    return table


def write(table):
    """Returns the page."""
    rows = [COLUMNS, ["---"] * len(COLUMNS)]
    rows += [[f"{line[name]:.0f}" if name == "seconds" else str(line[name]) for name in COLUMNS] for line in table]
    return HEAD + "".join("| " + " | ".join(row) + " |\n" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--table", type=Path, default=HERE / "results.md")
    arguments = parser.parse_args()
    table = read(arguments.table.read_text(encoding="utf-8")) if arguments.table.exists() else []
    for row in arguments.rows.read_text(encoding="utf-8").splitlines():
        table = added(table, line_of(json.loads(row)))
    temporary = arguments.table.with_name(arguments.table.name + ".tmp")
    temporary.write_text(write(table), encoding="utf-8")
    temporary.replace(arguments.table)


if __name__ == "__main__":
    main()
