#!/usr/bin/env python3
"""The failed tests of a JUnit report of ctest: their names, or with --said the last that each of them said.

    tests/support/failed.py REPORT [--said]
"""

import sys
import xml.etree.ElementTree
from pathlib import Path

LAST_LINES = 40


def main():
    report = xml.etree.ElementTree.fromstring(Path(sys.argv[1]).read_bytes())
    for test in report.iter("testcase"):
        if test.get("status") != "fail":
            continue
        print(test.get("name"))
        if "--said" in sys.argv[2:]:
            for line in (test.findtext("system-out") or "").splitlines()[-LAST_LINES:]:
                print(f"  {line}")


if __name__ == "__main__":
    main()
