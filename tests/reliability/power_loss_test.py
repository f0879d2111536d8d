#!/usr/bin/env python3
"""Power loss while steps are saved and removed: the newest durable step, or a newer one, is found.

    tests/reliability/power_loss_test.py build/launch/longspan [--full] [--shard K/N] [--kind WORDS]

The calls that change the disk are logged while steps are saved, replaced and removed, one save is killed and one
removal fails. crash_states.py derives the possible states of the file system after each call. A run must start from
each of them with that step, and save the next one. No invalid step may have the name of a step.
"""

import itertools
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
from trained import WAYS, Trained, on

DRAWN = 20000  # random states of each log, in addition to the enumerated ones


def log_of_saves(counted, folders, ranks, way):
    path = folders.path / f"log-{ranks}-{way}"
    driver = Path(counted.program).parents[1] / "tests" / "checkpoint_save_faults"
    launcher = [str(jobs.MPIRUN), str(ranks)] if ranks > 1 else []
    subprocess.run([*launcher, driver, "log", folders.new(), path, way], check=True)
    return crash_states.Log(path)


class States:
    """Each state of a log in a separate directory; equal states are checked once."""

    def __init__(self, log, folders):
        self.log, self.folders, self.known = log, folders, {}

    def problem_of(self, state, judge):
        """Returns the problem with its state, or "". judge(folder, step) returns the problem or ""."""
        tree = crash_states.tree_of(self.log, crash_states.changes_of(self.log, state))
        least = self.log.saved_by(state[1])
        key = hash((least, *sorted((path, content) for path, content in tree.items() if content is not None),
                    *sorted(path for path, content in tree.items() if content is None)))
        if key not in self.known:
            folder = self.folders.new()
            crash_states.write_tree(tree, folder)
            self.known[key] = judge(folder, least)
            shutil.rmtree(folder)
        return f"{state}: {self.known[key]}" if self.known[key] else ""


def try_saves(counted, folders, ranks, way):
    name = f"power is lost in a save {WAYS[way]}, {on(ranks)}"
    if not counted.wants(name):
        return
    log = log_of_saves(counted, folders, ranks, way)
    described = crash_states.all_states(log, DRAWN)
    states = States(log, folders)
    driver = Driver(counted.program, ["resume"])
    kind = counted.kind(name, 200, len(described))

    def judge(folder, least):
        words = driver.ask(0, f"{folder} {least}")
        return "" if words[0] == "held" else " ".join(words[1:])

    kind.judge(lambda number: states.problem_of(described[number], judge))
    if kind.numbers:
        print(f"  {len(log.changes)} changes, {len(states.known)} different states", flush=True)
    driver.close()


def log_of_training(test):
    """Returns the log of a run in logged/run."""
    (test.directory / "logged").mkdir()
    result = test.train_watched("logged/run", {"BELOW": test.directory / "logged", "LOG": test.directory / "log"})
    if result.code:
        sys.exit(f"a training that is logged: {result.code} {result.errors}")
    log = crash_states.Log(test.directory / "log")
    log.saved = durable_steps(log)
    return log


def problem_of_training(test, folder, least):
    """Resumes from the state of the logged directory. Returns the problem or ""."""
    shutil.rmtree(test.directory / "again", ignore_errors=True)
    shutil.copytree(folder, test.directory / "again")
    steps = test.run_at("again/run").steps()
    if max(steps, default=0) < least:
        return f"step {least} was durable, and {steps} are there"
    try:
        if steps:
            test.longspan("verify", "again/run")
        result = test.resume_to_end("again/run", "logged/run")
        if steps:
            test.assertIn(f"at step {steps[-1]}", result.output)
    except AssertionError as failure:
        return str(failure)
    return ""


def durable_steps(log):
    """Returns durable steps: those whose name is in the directory of steps at its fsync."""
    return [(certain + 1, int(name[5:])) for _, certain, change in log.changes if certain < log.length
            and isinstance(change, crash_states.Names)
            for name, found in change.changes.items() if found is not None and name.startswith("step-") and name[5:].isdigit()]


def try_trainings(counted, folders, ranks):
    name = f"power is lost in `longspan train`, {on(ranks)}"
    if not counted.wants(name):
        return
    with Trained(counted, ranks) as test:
        log = log_of_training(test)
        described = crash_states.all_states(log, DRAWN)
        states = States(log, folders)
        kind = counted.kind(name, 6 if ranks == 1 else 2, len(described))
        kind.judge(lambda number: states.problem_of(
            described[number], lambda folder, least: problem_of_training(test, folder, least)))


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
