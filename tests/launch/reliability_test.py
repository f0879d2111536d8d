#!/usr/bin/env python3
"""launch/test --reliability with stubs of counted tests, and its table of results.

    tests/launch/reliability_test.py build/launch/longspan
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reliability"))
import jobs
import results
from jobs import SOURCE

# A counted test whose cases pass, except for the numbers in `failing`.
TEST = """#!/usr/bin/env python3
from counted import Counted
counted = Counted("a test")
kind = counted.kind("cases of {name}", 2, 8)
for number in kind:
    kind.fails(number, "it has that number") if number in {failing} else kind.passed()
counted.end()
"""


class Reliability(jobs.TestCase):
    def setUp(self):
        super().setUp()
        for name in "launch/test", "launch/scripts/common.sh", "launch/mpirun-environment", "tests/reliability/counted.py", \
                "tests/reliability/results.py":
            (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, self.directory / name)
        self.write("launch/setup", "#!/bin/sh\n")  # already built
        # Reports all packages as installed.
        self.write("bin/dpkg-query", '#!/bin/sh\nfor name; do echo "installed $name"; done\n')
        (self.directory / "build" / "launch").mkdir(parents=True)
        (self.directory / "build" / "launch" / "longspan").symlink_to(self.program)
        self.write("tests/reliability/first_test.py", TEST.format(name="the first", failing=set()))
        self.write("tests/reliability/second_test.py", TEST.format(name="the second", failing={3, 5}))
        self.write("tests/reliability/third_test.py", "#!/bin/sh\necho there is no such thing here\nexit 77\n")
        # The only test here that takes a program.
        self.write("tests/reliability/fuzz_test.py", '#!/bin/sh\n[ "$1" = build-fuzz/fuzzers ]\n')

    def write(self, name, text):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_tests(self, *arguments):
        path = f"{self.directory / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        return subprocess.run([self.directory / "launch" / "test", *arguments], capture_output=True, text=True, check=False,
                              env={"PATH": path, "HOME": str(self.directory)})

    def table(self):
        return {line["what"]: line for line in results.read((self.directory / "tests/reliability/results.md").read_text())}

    def test_counts_cases_and_records_rows(self):
        result = self.run_tests("--reliability")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        # Four of these are builds.
        self.assertEqual(result.stdout.splitlines()[-1], "6 passed, 1 failed, 1 skipped")
        self.assertIn("failed: tests/reliability/second_test.py", result.stdout)
        self.assertIn("cases of the second: case 3 FAILED: it has that number", result.stdout)
        table = self.table()
        self.assertEqual([(line["held"], line["cases"], line["in all"], line["shares"]) for line in table.values()],
                         [(8, 8, 8, "all"), (6, 8, 8, "all")])
        self.assertEqual(table["cases of the first"]["commit"], "none")

    def test_shards_accumulate(self):
        (self.directory / "tests/reliability/second_test.py").unlink()
        for shard, held in ("1/4", 2), ("3/4", 4):
            result = self.run_tests("--reliability", "--shard", shard)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertEqual(result.stdout.splitlines()[-1], "6 passed, 0 failed, 1 skipped")
            self.assertEqual(self.table()["cases of the first"]["held"], held)
        self.assertEqual(self.table()["cases of the first"]["shares"], "1/4 3/4")

    def test_rejects_invalid_shards(self):
        for arguments in ["--reliability", "--shard", "5/4"], ["--reliability", "--shard"], ["--shard", "1/4"], ["--quick", "--all"]:
            result = self.run_tests(*arguments)
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertIn("--shard K/N", result.stderr)

    def test_newer_commit_replaces_row_without_more_cases(self):
        def line(commit, cases):
            row = {"what": "kills", "held": cases, "cases": cases, "left_out": 0, "full": 8, "share": "some", "seconds": 1.0}
            return {**results.line_of(json.loads(json.dumps(row))), "commit": commit}
        table = []
        for commit, cases, kept in ("a", 6, ["a"]), ("b", 4, ["a", "b"]), ("b", 2, ["b"]), ("c", 6, ["c"]):
            table = results.read(results.write(results.added(table, line(commit, cases))))
            self.assertEqual([entry["commit"] for entry in table], kept)
        self.assertEqual(len(re.findall(r"(?m)^\| kills \|", results.write(table))), 1)


if __name__ == "__main__":
    jobs.main()
