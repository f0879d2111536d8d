#!/usr/bin/env python3
"""Every call of the save path fails once: the old step or the new one is whole then, and the next start goes on.

    tests/reliability/save_faults_test.py build/launch/longspan [--full] [--share K/N] [--kind WORDS]

Each call on a file below the folder of steps (open, read, write, fsync, rename, mkdir, unlink, ...) fails with each of five
errors, each that reads or writes does a part only, and each that takes memory gets none; and the disk is full at 128
sizes. Calls are counted by a save without a fault. Most of it is done by a program that saves and removes steps as a run
does (tests/checkpoints/save_faults.cpp); what a user sees, by `longspan train` itself.
"""

import collections
import errno
import itertools
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from counted import Counted
from saving import Driver, Folders

ERRORS = [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES, errno.EINTR]
SCENARIOS = ["first", "later", "again", "leftovers", "start"]  # of tests/checkpoints/save_faults.cpp
WAYS = {"waiting": "while training waits", "beside": "beside the training"}
SIZES = 128


def faults_of(calls, transfers):
    """(call, error) of each fault; error 0 is a part of a read or write."""
    return [*itertools.product(range(1, calls + 1), ERRORS), *((call, 0) for call in range(1, transfers + 1))]


def name_of(error):
    return errno.errorcode.get(error, "a part only")


class Saves:
    """The cases of one number of ranks and one way of saving."""

    def __init__(self, counted, folders, ranks, way):
        self.ranks, self.way = ranks, way
        self.drivers = {}
        for scenario in SCENARIOS:
            folder = folders.new()
            self.drivers[scenario] = Driver(counted.program, ["faults", folder, scenario, way], ranks)

    def seen(self, scenario, rank):
        """(calls, transfers, calls that take memory) of a save without a fault."""
        words = self.drivers[scenario].ask(0, f"files 0 0 {rank}")
        if words[0] != "held":
            sys.exit(f"a save without a fault: {' '.join(words)}")
        return [int(word) for word in words[1:4]]

    def of_files(self):
        """(scenario, rank, call, error)."""
        return [(scenario, rank, *fault) for scenario in SCENARIOS for rank in range(self.ranks)
                for fault in faults_of(*self.seen(scenario, rank)[:2])]

    def of_memory(self):
        return [(scenario, call) for scenario in SCENARIOS for call in range(1, self.seen(scenario, 0)[2] + 1)]

    def close(self):
        for driver in self.drivers.values():
            driver.close()


def wanted(counted, name):
    """Whether --kind has not left it out: counting its calls takes time."""
    return not counted.arguments.kind or counted.arguments.kind in name


def on(ranks):
    return "on one process" if ranks == 1 else f"on {ranks} ranks"


def try_calls(counted, folders, ranks, way):
    name = f"a call of a save {WAYS[way]} fails, {on(ranks)}"
    if not wanted(counted, name):
        return
    saves = Saves(counted, folders, ranks, way)
    cases = saves.of_files()
    kind = counted.kind(name, 150 if ranks == 1 else 60, len(cases))
    for number in kind:
        scenario, rank, call, error = cases[number]
        words = saves.drivers[scenario].ask(number, f"files {call} {error} {rank}")
        if words[0] == "held":
            kind.passed()
        else:
            kind.fails(number, f"{scenario}, call {call} of rank {rank}, {name_of(error)}: {' '.join(words)}")
    saves.close()


def try_memory(counted, folders, way):
    name = f"a save {WAYS[way]} gets no memory once"
    if not wanted(counted, name):
        return
    saves = Saves(counted, folders, 1, way)
    cases = saves.of_memory()
    ends = collections.Counter()
    kind = counted.kind(name, 60, len(cases))
    for number in kind:
        scenario, call = cases[number]
        words = saves.drivers[scenario].ask(number, f"memory {call} 0 0")
        if words[0] == "held":
            ends[words[4]] += 1
            kind.passed()
        else:
            kind.fails(number, f"{scenario}, call {call}: {' '.join(words)}")
    # Some libraries end a process that gets no memory (nlohmann-json's destructors take some, HDF5 calls exit or reads from
    # address 0): it says a sentence then, and as when it is killed the old step or the new one is whole.
    print(f"  {ends['saved']} saved all the same, {ends['refused']} said so, {ends['ended']} said so and ended at once",
          flush=True)
    saves.close()


def try_sizes(counted, folders, way):
    driver = Driver(counted.program, ["sizes", folders.new(), way])
    kind = counted.kind(f"the disk is full at each of {SIZES} sizes, in a save {WAYS[way]}", 12, SIZES)
    ends = {"saved": 0, "refused": 0}
    for number in kind:
        # In the last of them a step fits.
        words = driver.ask(number, f"{number + 24}")
        if words[0] == "held":
            ends[words[4]] += 1
            kind.passed()
        elif "mounting" in words:
            kind.leaves_out(number, "mounting a small file system is not permitted here")
        else:
            kind.fails(number, " ".join(words))
    driver.close()
    # Otherwise the sizes are not those at which it matters.
    if counted.arguments.full and counted.arguments.share == (1, 1) and kind.good and not all(ends.values()):
        sys.exit(f"of {SIZES} sizes {ends['refused']} were refused and {ends['saved']} saved: wanted some of both")


class Trained(jobs.TestCase):
    """`longspan train` of which one rank meets a fault."""

    def __init__(self, counted, ranks, way):
        super().__init__()
        jobs.TestCase.program = counted.program
        self.library = Path(counted.program).parents[1] / "tests" / "libfaulty_files.so"
        self.layout = jobs.Layout(ranks, 1)
        self.settings = {"training.steps": 6, "checkpoint.every": 2, "checkpoint.keep": 2,
                         "checkpoint.background": way == "beside"}

    def runTest(self):
        pass

    def with_fault(self, directory, rank, call, error):
        """The result of a training, and what the library tells of its calls."""
        told = self.directory / f"{directory}.told"
        variables = {"LD_PRELOAD": self.library, "LONGSPAN_FAULTS_BELOW": self.directory / directory / "checkpoints",
                     "LONGSPAN_FAULTS_RANK": rank, "LONGSPAN_FAULTS_CALL": call, "LONGSPAN_FAULTS_ERROR": error,
                     "LONGSPAN_FAULTS_TELL": told}
        os.environ.update({name: str(value) for name, value in variables.items()})
        try:
            job = self.start_training(directory, self.layout, self.settings)
            result = job.wait()
            job.close()
        finally:
            for name in variables:
                del os.environ[name]
        return result, told.read_text().split(maxsplit=2) if told.exists() else []

    def check(self, rank, call, error):
        directory = "faulty"
        shutil.rmtree(self.directory / directory, ignore_errors=True)
        result, _ = self.with_fault(directory, rank, call, error)
        run = self.run_at(directory)
        # 2: the folder of steps cannot be made, or written, when the run starts. 3: what it finds there cannot be read.
        self.assertIn(result.code, (0, 1, 2, 3), result.errors)
        if result.code:
            self.assertRegex(result.errors, r"\Alongspan: [^\n]+\n\Z")
        elif run.steps()[-1:] != [6]:
            self.fail(f"it ended well, and the last step is not there: {run.steps()}")
        verified = self.start("verify", directory).wait()
        if run.steps():
            self.assertEqual(verified.code, 0, verified.output + verified.errors)
        self.train(directory, self.layout, self.settings)
        self.assertEqual(run.state(6), self.run_at("whole").state(6))
        self.assertEqual(run.metrics_bytes(), self.run_at("whole").metrics_bytes())


def try_trainings(counted, ranks, way):
    name = f"a call of `longspan train` that saves {WAYS[way]} fails, {on(ranks)}"
    if not wanted(counted, name):
        return
    test = Trained(counted, ranks, way)
    test.setUp()
    cases = []
    for rank in range(ranks):
        directory = "whole" if rank == 0 else f"counted-{rank}"
        result, told = test.with_fault(directory, rank, 0, 0)
        if result.code or len(told) < 2:
            sys.exit(f"a training without a fault: {result.code} {result.errors} {told}")
        cases += [(rank, *fault) for fault in faults_of(int(told[0]), int(told[1]))]
    kind = counted.kind(name, 4 if ranks == 1 else 2, len(cases))
    for number in kind:
        rank, call, error = cases[number]
        try:
            test.check(rank, call, error)
            kind.passed()
        except AssertionError as failure:
            kind.fails(number, f"call {call} of rank {rank}, {name_of(error)}: {failure}")
    test.doCleanups()


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
