#!/usr/bin/env python3
"""Power is lost while steps are saved and removed: the newest step that was told to be durable, or a newer one, is found.

    tests/reliability/power_loss_test.py build/launch/longspan [--full] [--share K/N] [--kind WORDS]

The calls that change the disk are logged while steps are saved, replaced and removed, one save is killed and one removal
fails. Out of the log come the states that the file system may be in after each of them (crash_states.py); from each of
them a run must start, with that step, and save the next one. No name there may look like a step that is none.
"""

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import crash_states
import jobs
from counted import Counted
from saving import Driver, Folders

WAYS = {"waiting": "while training waits", "beside": "beside the training"}
DRAWN = 20000  # states of each log that are drawn, beside those that are listed


def log_of_saves(counted, folders, ranks, way):
    path = folders.path / f"log-{ranks}-{way}"
    driver = Path(counted.program).parents[1] / "tests" / "checkpoint_save_faults"
    launcher = [str(jobs.MPIRUN), str(ranks)] if ranks > 1 else []
    subprocess.run([*launcher, driver, "log", folders.new(), path, way], check=True)
    return crash_states.Log(path)


class States:
    """Each state of a log in a folder of its own, the same ones once."""

    def __init__(self, log, folders):
        self.log, self.folders, self.known = log, folders, {}

    def judged(self, state, judge):
        """judge(folder, step): an empty text where all is well."""
        tree = crash_states.tree_of(self.log, crash_states.changes_of(self.log, state))
        least = self.log.saved_by(state[1])
        key = hash((least, *sorted((path, content) for path, content in tree.items() if content is not None),
                    *sorted(path for path, content in tree.items() if content is None)))
        if key not in self.known:
            folder = self.folders.new()
            crash_states.write_tree(tree, folder)
            self.known[key] = judge(folder, least)
            shutil.rmtree(folder)
        return self.known[key]


def try_saves(counted, folders, ranks, way):
    on = "one process" if ranks == 1 else f"{ranks} ranks"
    name = f"power is lost in a save {WAYS[way]}, on {on}"
    if counted.arguments.kind and counted.arguments.kind not in name:
        return
    log = log_of_saves(counted, folders, ranks, way)
    described = crash_states.all_states(log, DRAWN)
    states = States(log, folders)
    driver = Driver(counted.program, ["resume"])
    kind = counted.kind(name, 200, len(described))
    for number in kind:
        def judge(folder, least):
            words = driver.ask(number, f"{folder} {least}")
            return "" if words[0] == "held" else " ".join(words[1:])
        problem = states.judged(described[number], judge)
        if problem:
            kind.fails(number, f"{described[number]}: {problem}")
        else:
            kind.passed()
    if kind.numbers:
        print(f"  {len(log.changes)} changes, {len(states.known)} different states", flush=True)
    driver.close()


class Trained(jobs.TestCase):
    """A training whose calls are logged, and one that goes on from what is left of its directory."""

    def __init__(self, counted, ranks):
        super().__init__()
        jobs.TestCase.program = counted.program
        self.library = Path(counted.program).parents[1] / "tests" / "libfaulty_files.so"
        self.layout = jobs.Layout(ranks, 1)
        self.settings = {"training.steps": 6, "checkpoint.every": 2, "checkpoint.keep": 2}

    def runTest(self):
        pass

    def log(self):
        (self.directory / "logged").mkdir()
        variables = {"LD_PRELOAD": self.library, "LONGSPAN_FAULTS_BELOW": self.directory / "logged",
                     "LONGSPAN_FAULTS_LOG": self.directory / "log"}
        os.environ.update({name: str(value) for name, value in variables.items()})
        try:
            self.train("logged/run", self.layout, self.settings)
        finally:
            for name in variables:
                del os.environ[name]
        log = crash_states.Log(self.directory / "log")
        log.saved = durable_steps(log)
        return log

    def problem_of(self, folder, least):
        shutil.rmtree(self.directory / "again", ignore_errors=True)
        shutil.copytree(folder, self.directory / "again")
        directory = "again/run"
        steps = self.run_at(directory).steps()
        try:
            if max(steps, default=0) < least:
                self.fail(f"step {least} was durable, and {steps} are there")
            if steps:
                self.longspan("verify", directory)
            result = self.train(directory, self.layout, self.settings)
            if steps:
                self.assertIn(f"at step {steps[-1]}", result.output)
            self.assertEqual(self.run_at(directory).state(6), self.run_at("logged/run").state(6))
            self.assertEqual(self.run_at(directory).metrics_bytes(), self.run_at("logged/run").metrics_bytes())
        except AssertionError as failure:
            return str(failure)
        return ""


def durable_steps(log):
    """As documented: a step is durable when the folder of steps was brought to the disk with its name in it."""
    return [(certain + 1, int(name[5:])) for _, certain, change in log.changes if certain < log.length
            and isinstance(change, crash_states.Names)
            for name, found in change.changes.items() if found is not None and name.startswith("step-") and name[5:].isdigit()]


def try_trainings(counted, folders, ranks):
    on = "one process" if ranks == 1 else f"{ranks} ranks"
    name = f"power is lost in `longspan train`, on {on}"
    if counted.arguments.kind and counted.arguments.kind not in name:
        return
    test = Trained(counted, ranks)
    test.setUp()
    log = test.log()
    described = crash_states.all_states(log, DRAWN)
    states = States(log, folders)
    kind = counted.kind(name, 6 if ranks == 1 else 2, len(described))
    for number in kind:
        problem = states.judged(described[number], test.problem_of)
        if problem:
            kind.fails(number, f"{described[number]}: {problem}")
        else:
            kind.passed()
    test.doCleanups()


def main():
    counted = Counted(__doc__)
    with Folders() as folders:
        for ranks, way in itertools.product((1, 2), WAYS):
            try_saves(counted, folders, ranks, way)
        for ranks in 1, 2:
            try_trainings(counted, folders, ranks)
    counted.end()


if __name__ == "__main__":
    main()
