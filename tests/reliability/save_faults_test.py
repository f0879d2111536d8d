#!/usr/bin/env python3
"""Every call of the save path fails once: the old or the new step remains complete, and the next start resumes.

    tests/reliability/save_faults_test.py build/launch/longspan [--full] [--shard K/N] [--kind WORDS]

Each call on a file in the directory of steps (open, read, write, fsync, rename, mkdir, unlink, ...) fails with each of
five errors. Each read or write transfers only a part, each allocation fails, and the disk is full at 128 sizes. A save
without a fault counts the calls. Most cases use a program that saves and removes steps as a run does
(tests/checkpoints/save_faults.cpp). Others check the output of `longspan train`.
"""

import collections
import errno
import itertools
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from counted import Counted
from saving import Driver, Folders
from trained import WAYS, Trained, on

ERRORS = [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES, errno.EINTR]
SCENARIOS = ["first", "later", "again", "leftovers", "start"]  # of tests/checkpoints/save_faults.cpp
SIZES = 128


def faults_of(calls, transfers):
    """Returns (call, error) of each fault; error 0: a partial read or write."""
    return [*itertools.product(range(1, calls + 1), ERRORS), *((call, 0) for call in range(1, transfers + 1))]


def name_of(error):
    return errno.errorcode.get(error, "a part only")


class Saves:
    """Cases for one number of ranks and one way of saving."""

    def __init__(self, counted, folders, ranks, way):
        self.ranks, self.way = ranks, way
        self.drivers = {}
        for scenario in SCENARIOS:
            folder = folders.new()
            self.drivers[scenario] = Driver(counted.program, ["faults", folder, scenario, way], ranks)

    def ask(self, scenario, number, question):
        """Ends the other drivers first: their ranks would hang while they wait for a question."""
        for other in SCENARIOS:
            if other != scenario:
                self.drivers[other].close()
        return self.drivers[scenario].ask(number, question)

    def seen(self, scenario, rank):
        """Returns (calls, transfers, allocations) of a save without a fault."""
        words = self.ask(scenario, 0, f"files 0 0 {rank}")
        if words[0] != "held":
            sys.exit(f"a save without a fault: {' '.join(words)}")
        return [int(word) for word in words[1:4]]

    def of_files(self):
        """Returns (scenario, rank, call, error) of each case."""
        return [(scenario, rank, *fault) for scenario in SCENARIOS for rank in range(self.ranks)
                for fault in faults_of(*self.seen(scenario, rank)[:2])]

    def of_memory(self):
        return [(scenario, call) for scenario in SCENARIOS for call in range(1, self.seen(scenario, 0)[2] + 1)]

    def close(self):
        for driver in self.drivers.values():
            driver.close()


def try_calls(counted, folders, ranks, way):
    name = f"a call of a save {WAYS[way]} fails, {on(ranks)}"
    if not counted.wants(name):
        return
    saves = Saves(counted, folders, ranks, way)
    cases = saves.of_files()
    kind = counted.kind(name, 75 if ranks == 1 else 30, len(cases))

    def problem_of(number):
        scenario, rank, call, error = cases[number]
        words = saves.ask(scenario, number, f"files {call} {error} {rank}")
        held = words[0] == "held"
        return "" if held else f"{scenario}, call {call} of rank {rank}, {name_of(error)}: {' '.join(words)}"

    kind.judge(problem_of)
    saves.close()


def try_memory(counted, folders, way):
    name = f"a save {WAYS[way]} gets no memory once"
    if not counted.wants(name):
        return
    saves = Saves(counted, folders, 1, way)
    cases = saves.of_memory()
    ends = collections.Counter()
    kind = counted.kind(name, 30, len(cases))
    for number in kind:
        scenario, call = cases[number]
        words = saves.ask(scenario, number, f"memory {call} 0 0")
        if words[0] == "held":
            ends[words[4]] += 1
            kind.passed()
        else:
            kind.fails(number, f"{scenario}, call {call}: {' '.join(words)}")
    # Some libraries end a process whose allocation fails: destructors of nlohmann-json allocate, HDF5 calls exit or
    # reads address 0. The process then prints one message, and the old or the new step is complete.
    print(f"  {ends['saved']} saved all the same, {ends['refused']} said so, {ends['ended']} said so and ended at once",
          flush=True)
    saves.close()


def try_sizes(counted, folders, way):
    driver = Driver(counted.program, ["sizes", folders.new(), way])
    kind = counted.kind(f"the disk is full at each of {SIZES} sizes, in a save {WAYS[way]}", 12, SIZES)
    ends = {"saved": 0, "refused": 0}
    for number in kind:
        # A step fits into the last of the sizes.
        words = driver.ask(number, f"{number + 24}")
        if words[0] == "held":
            ends[words[4]] += 1
            kind.passed()
        elif "mounting" in words:
            kind.leaves_out(number, "mounting a small file system is not permitted here")
        else:
            kind.fails(number, " ".join(words))
    driver.close()
    # Otherwise the sizes are not near that of a step.
    if counted.arguments.full and counted.arguments.shard == (1, 1) and kind.good and not all(ends.values()):
        sys.exit(f"of {SIZES} sizes {ends['refused']} were refused and {ends['saved']} saved: wanted some of both")


def train_with_fault(test, directory, rank, call, error):
    """Returns the result of a training with a fault on one rank, and the counts that the library reports."""
    counts = test.directory / f"{directory}.told"
    below = test.directory / directory / "checkpoints"
    result = test.train_watched(directory, {"BELOW": below, "RANK": rank, "CALL": call, "ERROR": error, "TELL": counts})
    return result, counts.read_text().split(maxsplit=2) if counts.exists() else []


def check_fault(test, rank, call, error):
    """Checks the exit code and message, and that the next start resumes as the run without a fault in whole/."""
    directory = "faulty"
    shutil.rmtree(test.directory / directory, ignore_errors=True)
    result, _ = train_with_fault(test, directory, rank, call, error)
    run = test.run_at(directory)
    # 2: the directory of steps cannot be created or written at the start. 3: its contents cannot be read.
    test.assertIn(result.code, (0, 1, 2, 3), result.errors)
    if result.code:
        test.assertRegex(result.errors, r"\Alongspan: [^\n]+\n\Z")
    elif run.steps()[-1:] != [6]:
        test.fail(f"it ended well, and the last step is not there: {run.steps()}")
    verified = test.start("verify", directory).wait()
    if run.steps():
        test.assertEqual(verified.code, 0, verified.output + verified.errors)
    test.resume_to_end(directory, "whole")


def try_trainings(counted, ranks, way):
    name = f"a call of `longspan train` that saves {WAYS[way]} fails, {on(ranks)}"
    if not counted.wants(name):
        return
    with Trained(counted, ranks, {"checkpoint.async_save": way == "background"}) as test:
        cases = []
        for rank in range(ranks):
            directory = "whole" if rank == 0 else f"counted-{rank}"
            result, counts = train_with_fault(test, directory, rank, 0, 0)
            if result.code or len(counts) < 2:
                sys.exit(f"a training without a fault: {result.code} {result.errors} {counts}")
            cases += [(rank, *fault) for fault in faults_of(int(counts[0]), int(counts[1]))]

        def problem_of(number):
            rank, call, error = cases[number]
            try:
                check_fault(test, rank, call, error)
            except AssertionError as failure:
                return f"call {call} of rank {rank}, {name_of(error)}: {failure}"
            return ""

        counted.kind(name, 2 if ranks == 1 else 1, len(cases)).judge(problem_of)


def main():
    counted = Counted(__doc__)
    with Folders() as folders:
        for ranks, way in itertools.product((1, 2), WAYS):
            try_calls(counted, folders, ranks, way)
        for way in WAYS:
            try_memory(counted, folders, way)
            try_sizes(counted, folders, way)
    for ranks, way in itertools.product((1, 2), WAYS):
        try_trainings(counted, ranks, way)
    counted.end()


if __name__ == "__main__":
    main()
