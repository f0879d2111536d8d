#!/usr/bin/env python3
"""A run that trains on for hours while it saves and is measured, and beside it one that is killed again and again.

    tests/reliability/soak_test.py build/launch/longspan [--full] [--cases MINUTES]

A case is a minute. Memory and open files of the first run's processes are those that they had once they had saved and
measured for a while (what an allocator keeps grows until then), within 1%; metrics.jsonl
of both has each step once; at the end nothing is left over in their directories, in TMPDIR or in /dev/shm, which the
test has for itself where the system lets it (unshare).
"""

import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import tiny_families
from counted import Counted
from jobs import Job, Layout, Run, flat, until
from kills import KILLED

LAYOUT = Layout(2, 1)
LOGGED = 5  # steps
SETTINGS = {**LAYOUT.settings(), "training.max_steps": 10**9, "training.validation.interval": 70, "checkpoint.save_interval": 50,
            "metrics.log_interval": LOGGED}
WARM = 2_000  # steps before the first look at memory: 40 saves and 28 validations
OWN = "LONGSPAN_TEST_OWN_SHARED_MEMORY"  # set where /dev/shm is this test's
GROWTH = 0.01
INPUT = {"decoder.yaml", "text.txt", "held-out.txt"}


def with_own_shared_memory():
    """Starts this test again where /dev/shm is empty and nobody else's; returns where the system does not let it."""
    if OWN in os.environ:
        return
    alone = ["unshare", "--map-root-user", "--mount"]
    mount = "mount -t tmpfs tmpfs /dev/shm"
    try:
        subprocess.run([*alone, "sh", "-c", mount], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print("/dev/shm is not looked at: unshare gives this test none of its own", flush=True)
        return
    os.environ[OWN] = "1"
    os.execvp(alone[0], [*alone, "sh", "-c", f'{mount} && exec "$0" "$@"', sys.executable, *sys.argv])


class Processes:
    """What the long-lived processes hold."""

    def __init__(self, job):
        self.processes = [job.process_of(rank) for rank in range(LAYOUT.ranks)]

    def held(self):
        """Of each the resident pages and the number of open files."""
        return [(int(Path(f"/proc/{process}/statm").read_text().split()[1]), len(os.listdir(f"/proc/{process}/fd")))
                for process in self.processes]

    def over(self, seconds, meanwhile):
        """Of each, over so long, the median of the pages and the fewest files: some are open for a moment."""
        samples, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            samples.append(self.held())
            meanwhile()
            time.sleep(0.2)
        return [(statistics.median(pages), min(files)) for pages, files in (zip(*of) for of in zip(*samples))]


class Broken:
    """The run that is killed: one rank of it, after some seconds, and then it is started again."""

    def __init__(self, start):
        self.start, self.moment, self.kills = start, random.Random(1), 0
        self.begin()

    def begin(self):
        self.job = self.start("broken")
        self.end = time.monotonic() + self.moment.uniform(3, 20)

    def look(self):
        if time.monotonic() < self.end and not self.job.ended():
            return
        rank = self.moment.randrange(LAYOUT.ranks)
        if not until(lambda: self.job.ended() or self.job.signal_rank(signal.SIGKILL, rank)):
            return
        code = self.job.wait().code
        if code not in KILLED:
            raise AssertionError(f"the killed run ended with {code}\n{self.job.output()[-2000:]}{self.job.errors()}")
        self.job.close()
        self.kills += 1
        self.begin()


def gaps(run):
    """What is wrong with the steps of metrics.jsonl; empty where each is there once."""
    steps = [json.loads(line)["step"] for line in run.metrics_bytes().splitlines()]
    steps = [step for step in steps if step % LOGGED == 0]  # a validation has a line of its own
    wanted = list(range(LOGGED, LOGGED * len(steps) + 1, LOGGED))
    if steps and steps == wanted:
        return ""
    return f"metrics.jsonl of {run.path.name} has the steps {steps[:5]} ... {steps[-5:]}"


def left_over(directory, runs):
    found = []
    for run in runs:
        names = {"config.yaml", "metrics.jsonl", "log.txt", "checkpoints", ".lock"}
        found += [path for path in run.path.iterdir() if path.name not in names and ".before-" not in path.name]
        found += [name for name in run.entries() if not name[5:].isdigit()]
        # Two are retained. A stop removes none, so its own is a third, and one that a kill left before its removal a fourth.
        if len(run.steps()) > 4:
            found.append(f"{len(run.steps())} steps of {run.path.name}")
    known = {run.path.name for run in runs} | INPUT
    # Of Open MPI's folder, which stays, only what is in it.
    found += [path for path in directory.iterdir() if path.name not in known and (path.is_file() or list(path.rglob("*")))]
    if OWN in os.environ:
        found += list(Path("/dev/shm").iterdir())
    return f"left over: {', '.join(map(str, found))}" if found else ""


def ask_to_stop(job):
    until(lambda: job.ended() or "step " in job.output())
    job.signal(signal.SIGUSR1)
    result = job.wait()
    job.close()
    return "" if result.code == 75 else f"asked to stop it ended with {result.code}\n{result.output[-2000:]}{result.errors}"


def grown(first, now):
    for rank, ((pages, files), (more_pages, more_files)) in enumerate(zip(first, now)):
        if more_pages > pages * (1 + GROWTH):
            return f"rank {rank} holds {more_pages:.0f} pages; in the beginning it held {pages:.0f}"
        if more_files > files:
            return f"rank {rank} has {more_files} files open; in the beginning it had {files}"
    return ""


def soak(counted, kind, directory):
    program = counted.program
    os.environ["LONGSPAN_TIME_LIMIT"] = "1000000"  # of tests/support/mpirun
    # glibc gives threads that meet a heap each. One that has written a checkpoint keeps 2 MB, 4% of what these processes
    # hold, and threads may meet for the first time at any hour. With one heap for all, what grows has leaked.
    os.environ["MALLOC_ARENA_MAX"] = "1"
    file = tiny_families.write(directory, "decoder")

    def start(name):
        return Job(program, ["train", file, *flat({"run.output_dir": name, **SETTINGS})], LAYOUT.ranks, directory)
    steady, broken = start("steady"), Broken(start)
    runs = [Run(directory / "steady"), Run(directory / "broken")]
    while not steady.ended() and (runs[0].steps() or [0])[-1] < WARM:
        broken.look()
        time.sleep(0.2)
    processes = Processes(steady)
    first = now = processes.over(min(600, 20 * len(kind.numbers)), broken.look)
    for number in kind:
        try:
            now = processes.over(60, broken.look)
            why = grown(first, now)
        except (OSError, AssertionError) as error:  # a process that is gone
            why = f"{error}\n{steady.output()[-2000:]}{steady.errors()}"
        measured = Job(program, ["evaluate", "steady", "--json"], directory=directory)
        if not why and measured.wait().code != 0:
            why = f"evaluate: {measured.errors()}"
        measured.close()
        if number == kind.numbers[-1]:
            why = why or ask_to_stop(steady) or ask_to_stop(broken.job)
            why = why or gaps(runs[0]) or gaps(runs[1]) or left_over(directory, runs)
            print(f"pages and files of each rank at first {first}, at last {now}; {runs[0].steps()[-1]} steps, "
                  f"{broken.kills} kills of the other run", flush=True)
        kind.fails(number, why) if why else kind.passed()


def main():
    with_own_shared_memory()
    counted = Counted(__doc__)
    counted.arguments.shard = (1, 1)  # minutes are not shared out: memory is flat over all of them
    kind = counted.kind("minutes of one run, memory and files flat", 1, 360)
    directory = Path(tempfile.mkdtemp(prefix="longspan-test-"))
    try:
        if kind.numbers:
            soak(counted, kind, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    counted.end()


if __name__ == "__main__":
    main()
