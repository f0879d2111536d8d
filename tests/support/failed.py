#!/usr/bin/env python3
"""Lists the failed tests of a JUnit report of ctest: their names, with --output also the last lines that each printed.

    tests/support/failed.py REPORT [--output]
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
        if "--output" in sys.argv[2:]:
            for line in (test.findtext("system-out") or "").splitlines()[-LAST_LINES:]:
                print(f"  {line}")


if __name__ == "__main__":
    main()
