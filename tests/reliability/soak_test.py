#!/usr/bin/env python3
"""A run that trains for hours while it saves and is measured, next to one that is killed repeatedly.

    tests/reliability/soak_test.py build/launch/longspan [--full] [--cases MINUTES]

A case is a minute, and 15 seconds without --full. After warm-up, memory of the first run may grow by at most 1%, but for two
steps (a leak grows on), and its number of open files may not grow. metrics.jsonl of both runs must have each step once. At
the end no files may be left in their directories, in TMPDIR or in /dev/shm. /dev/shm is private to the test if the system
permits it (unshare).
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
WARM = 2_000  # steps before the first sample of memory: 40 saves and 28 validations
OWN = "LONGSPAN_TEST_OWN_SHARED_MEMORY"  # set if /dev/shm is private to this test
GROWTH = 0.01
STEPS = 2  # to a new level: a rank takes another megabyte once or twice, some time after the warm-up, and no more
INPUT = {"decoder.yaml", "text.txt", "held-out.txt"}


def with_own_shared_memory():
    """Restarts this test with an empty private /dev/shm. Returns if the system does not permit it."""
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
    """Memory and files of the long-lived processes."""

    def __init__(self, job):
        self.processes = [job.process_of(rank) for rank in range(LAYOUT.ranks)]

    def held(self):
        """Returns the resident pages and the number of open files of each process."""
        return [(int(Path(f"/proc/{process}/statm").read_text().split()[1]), len(os.listdir(f"/proc/{process}/fd")))
                for process in self.processes]

    def over(self, seconds, meanwhile):
        """Returns the median of the pages and the minimum of open files over `seconds`: some files are open briefly."""
        samples, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            samples.append(self.held())
            meanwhile()
            time.sleep(0.2)
        return [(statistics.median(pages), min(files)) for pages, files in (zip(*of) for of in zip(*samples))]


class Broken:
    """The run that is killed repeatedly: one rank, after some seconds; then it is restarted."""

    def __init__(self, start):
        self.start, self.moment, self.kills = start, random.Random(1), 0
        self.begin()

    def begin(self):
        self.job = self.start("broken")
        self.end = time.monotonic() + self.moment.uniform(3, 20)

    def poll(self):
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
    """Returns what is wrong with the steps of metrics.jsonl; "" if each occurs once."""
    steps = [json.loads(line)["step"] for line in run.metrics_bytes().splitlines()]
    steps = [step for step in steps if step % LOGGED == 0]  # a validation has a separate line
    expected = list(range(LOGGED, LOGGED * len(steps) + 1, LOGGED))
    if steps and steps == expected:
        return ""
    return f"metrics.jsonl of {run.path.name} has the steps {steps[:5]} ... {steps[-5:]}"


def left_over(directory, runs):
    found = []
    for run in runs:
        names = {"config.yaml", "metrics.jsonl", "log.txt", "checkpoints", ".lock"}
        found += [path for path in run.path.iterdir() if path.name not in names and ".before-" not in path.name]
        found += [name for name in run.entries() if not name[5:].isdigit()]
        # Two are retained. A stop adds a third and removes none, and a kill before a removal leaves a fourth.
        if len(run.steps()) > 4:
            found.append(f"{len(run.steps())} steps of {run.path.name}")
    known = {run.path.name for run in runs} | INPUT
    # Open MPI's directory remains, with the file that keeps it; only its other contents count.
    found += [path for path in directory.iterdir() if path.name not in known and
              (path.is_file() or any(inner.name != ".keep" for inner in path.rglob("*")))]
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
    """Returns what has grown; "" if nothing has."""
    for rank, ((pages, files), (more_pages, more_files)) in enumerate(zip(first, now)):
        if more_pages > pages * (1 + GROWTH):
            return f"rank {rank} holds {more_pages:.0f} pages; in the beginning it held {pages:.0f}"
        if more_files > files:
            return f"rank {rank} has {more_files} files open; in the beginning it had {files}"
    return ""


def soak(counted, kind, directory):
    program = counted.program
    os.environ["LONGSPAN_TIME_LIMIT"] = "1000000"  # of tests/support/mpirun
    # glibc gives contending threads separate heaps. A heap that has written a checkpoint keeps 2 MB, 4% of the memory
    # of these processes, and contention may start at any time. With a single heap, growth means a leak.
    os.environ["MALLOC_ARENA_MAX"] = "1"
    file = tiny_families.write(directory, "decoder")

    def start(name):
        return Job(program, ["train", file, *flat({"run.output_dir": name, **SETTINGS})], LAYOUT.ranks, directory)
    steady, broken = start("steady"), Broken(start)
    runs = [Run(directory / "steady"), Run(directory / "broken")]
    while not steady.ended() and (runs[0].steps() or [0])[-1] < WARM:
        broken.poll()
        time.sleep(0.2)
    if steady.ended():
        raise AssertionError(f"the run has ended\n{steady.output()[-2000:]}{steady.errors()}")
    processes = Processes(steady)
    seconds = 60 if counted.arguments.full else 15
    first = now = processes.over(min(600, seconds // 3 * len(kind.numbers)), broken.poll)
    steps = 0
    for number in kind:
        try:
            now = processes.over(seconds, broken.poll)
            why = grown(first, now)
            while "pages" in why and steps < STEPS:
                steps, first = steps + 1, now
                now = processes.over(seconds, broken.poll)
                why = grown(first, now)
        except (OSError, AssertionError) as error:  # a process has ended
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
    counted.arguments.shard = (1, 1)  # minutes are not sharded: memory must be constant over all of them
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
