"""Common code of the tests in this folder: number of cases, shards, and rows of the results.

    tests/reliability/NAME_test.py PROGRAM [--full] [--shard K/N] [--cases N] [--only NUMBER]

Without options a test runs the few cases of launch/test. With --full it runs the full count. The number of a case
determines everything in it, so --only repeats a failed case.
"""

import argparse
import json
import os
import re
import sys
import time


MOST_LEFT_OUT = 0.2  # of a full count


def _shard(text):
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if not found or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f'expected K/N with 1 <= K <= N, such as 2/8, found "{text}"')
    return int(found[1]), int(found[2])


def skip(reason):
    """Ends the test as skipped because a requirement is missing."""
    print(f"skipped: {reason}", flush=True)
    sys.exit(77)


class Counted:
    """One test program: options, rows of results and exit code."""

    def __init__(self, description):
        parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("program", help="build/launch/longspan, or what the test says")
        parser.add_argument("--full", action="store_true", help="as many cases as the reliability run counts")
        parser.add_argument("--shard", type=_shard, default=(1, 1), metavar="K/N", help="only each N-th case")
        parser.add_argument("--cases", type=int, help="so many cases of each kind")
        parser.add_argument("--only", type=int, help="only the case of this number, as when it failed")
        parser.add_argument("--kind", help="only the kinds of case whose name has this in it")
        self.arguments = parser.parse_args()
        self.program = os.path.abspath(self.arguments.program)
        self.failed = self.judged = 0

    def wants(self, name):
        """Returns whether --kind selects this kind. Counting the cases of a kind may take time."""
        return not self.arguments.kind or self.arguments.kind in name

    def kind(self, name, usual, full):
        """Cases of one kind. `full`: number of all cases; `usual`: number of those that launch/test runs."""
        return _Kind(self, name, usual, full)

    def end(self):
        if not self.failed and not self.judged:
            skip("no case could be run here")
        sys.exit(1 if self.failed else 0)


class _Kind:
    """`for number in kind:` yields the cases of this shard; `kind.passed()` or `kind.fails(number, why)` ends each."""

    def __init__(self, counted, name, usual, full):
        arguments = counted.arguments
        self.counted, self.name = counted, name
        count = arguments.cases or (full if arguments.full else usual)
        self.count = min(count, full)
        # A few cases are spread evenly over the full count.
        self.numbers = [number * full // self.count for number in range(self.count)]
        part, parts = arguments.shard
        self.numbers = self.numbers[part - 1 :: parts]
        if arguments.only is not None:
            self.numbers = [arguments.only]
        if not counted.wants(name):
            self.numbers = []
        self.full, self.good, self.bad, self.left_out = full, 0, 0, 0
        is_all = self.count == full and arguments.only is None
        self.share = "some" if not is_all else "all" if parts == 1 else f"{part}/{parts}"

    def __iter__(self):
        begin = time.monotonic()
        yield from self.numbers
        if not self.numbers:
            return
        seconds = time.monotonic() - begin
        self.counted.failed += self.bad
        self.counted.judged += self.good + self.bad
        if self.counted.arguments.full and self.left_out > MOST_LEFT_OUT * len(self.numbers):
            self.counted.failed += 1
            print(f"{self.name}: FAILED: {self.left_out} of {len(self.numbers)} cases could not be run", flush=True)
        print(f"{self.name}: {self.good} of {self.good + self.bad} in {seconds:.0f} s"
              + (f", {self.left_out} left out" if self.left_out else "")
              + (f" (of {self.full} in all)" if len(self.numbers) < self.full else ""), flush=True)
        # launch/test --reliability writes these rows to a table.
        if path := os.environ.get("LONGSPAN_RELIABILITY_ROWS"):
            with open(path, "a", encoding="utf-8") as rows:
                rows.write(json.dumps({"what": self.name, "held": self.good, "cases": self.good + self.bad,
                                       "left_out": self.left_out, "full": self.full, "share": self.share,
                                       "seconds": round(seconds, 1)}) + "\n")

    def judge(self, problem_of):
        """Runs every case. problem_of(number) returns the problem or ""; an AssertionError is also a problem."""
        for number in self:
            try:
                problem = problem_of(number)
            except AssertionError as failure:
                problem = str(failure) or "an assertion that says nothing"
            if problem:
                self.fails(number, problem)
            else:
                self.passed()

    def passed(self):
        self.good += 1

    def fails(self, number, why):
        self.bad += 1
        print(f"{self.name}: case {number} FAILED: {why}", flush=True)

    def leaves_out(self, number, why):
        """Records a case that cannot run here, with the reason."""
        self.left_out += 1
        print(f"{self.name}: case {number} left out: {why}", flush=True)
