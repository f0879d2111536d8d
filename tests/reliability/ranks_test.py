#!/usr/bin/env python3
"""Faults of one rank: each ends with its documented exit code and one message, without a hang, and the run resumes.

    tests/reliability/ranks_test.py build/launch/longspan [--full] [--shard K/N] [--cases N] [--only NUMBER] [--kind NAME]

Faults from outside a rank are signals and limits. Faults from inside are preloaded (rank_fault.cpp).
tests/distributed/failures_test.py covers ranks that call different collectives.
"""

import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import faults
import kills
import tiny_families
from counted import Counted
from jobs import Layout, until
from place import Place

LAYOUTS = (Layout(2, 1), Layout(1, 2), Layout(1, 1, context=2), Layout(2, 2))
FAMILIES = tiny_families.FAMILIES
TEXT_FAMILIES = ("transformer_xl", "decoder", "universal_transformer")
# Long enough for faults from outside.
LONG = {"training.max_steps": 150, "checkpoint.save_interval": 10, "training.validation.interval": 50}
# Long enough for each phase of a run.
SHORT = {"training.max_steps": 8, "checkpoint.save_interval": 2, "training.validation.interval": 3}
MOST_SECONDS = 30  # from fault to end of the job, plus the timeout of collectives; large, for busy machines
ATTEMPTS = 5  # if the run was faster than the fault


class Quicker(Exception):
    """The run ended before the fault."""


class LeftOut(Exception):
    """The case cannot be judged here, for the given reason."""


ANY_MESSAGE = "."
# oneDNN, HDF5 and Open MPI do not always check for failed allocations.
LIBRARY_CRASH = r"signal (6 \(Aborted\)|11 \(Segmentation fault\)): a disk or the memory is full"


def ended(job, expected, most=MOST_SECONDS):
    """Returns why the job did not end as expected within the time, or "".

    `expected`: {exit code: pattern of the only message on standard error, or None for no message}.
    """
    begin = time.monotonic()
    result = job.wait()
    seconds = time.monotonic() - begin
    output = f"\n{result.output[-2000:]}{result.errors}"
    if result.code not in expected:
        return f"exit code {result.code}, wanted one of {sorted(expected)}{output}"
    if seconds > most:
        return f"it took {seconds:.0f} s to end, wanted at most {most}{output}"
    messages = re.findall(r"(?m)^longspan: .*$", result.errors)
    pattern = expected[result.code]
    if len(messages) != (pattern is not None) or pattern and not re.search(pattern, messages[0]):
        return f"standard error is to be {f'one sentence with {pattern!r}' if pattern else 'empty'}{output}"
    return ""


class Bench:
    """The places of the cases, in rotation. Each is made once; only the broken run differs per case."""

    def __init__(self, program, directory):
        self.program, self.directory, self.places = program, Path(directory), {}
        self.library = self.phases = None  # made on first use

    def place(self, number, families=FAMILIES, layouts=LAYOUTS, settings=None):
        family, layout = families[number % len(families)], layouts[number // len(families) % len(layouts)]
        key = (family, layout, str(settings))
        if key not in self.places:
            place = Place(self.program, self.directory / f"place-{len(self.places)}", family, layout, settings)
            place.train_unbroken()
            self.places[key] = place
        self.places[key].forget()
        return self.places[key]

    def on_rank(self, place, rank, fault, within=""):
        """Returns a script that starts the program with the fault on `rank`, and the file that the fault creates."""
        self.library = self.library or faults.compile_fault(self.directory)
        struck = self.directory / "struck"
        struck.unlink(missing_ok=True)
        lines = faults.preload(self.library, fault, struck, within)
        return faults.on_rank(place.directory, self.program, rank, lines), struck


def at_a_step(job, moment, steps):
    """Waits for a random step. Raises Quicker if the job has ended."""
    step = moment.randint(1, steps)
    until(lambda: job.ended() or f"step {step}/" in job.output())
    time.sleep(moment.uniform(0, 0.05))
    if job.ended():
        raise Quicker


def with_job(job, action):
    """Returns the result of the action and closes the job."""
    try:
        return action(job)
    finally:
        job.close()


def killed(bench, number, moment):
    place = bench.place(number, settings=LONG)

    def act(job):
        at_a_step(job, moment, 120)
        if not job.signal_rank(signal.SIGKILL, moment.randrange(place.layout.ranks)):
            raise Quicker
        return ended(job, {137: None})
    return with_job(place.start(), act) or place.resume_to_end()


def stopped(bench, number, moment):
    place = bench.place(number, settings=LONG)
    rank = moment.randrange(place.layout.ranks)

    def act(job):
        at_a_step(job, moment, 120)
        if not job.signal_rank(signal.SIGSTOP, rank):
            raise Quicker
        return ended(job, {5: rf"rank {rank} did not respond within"}, MOST_SECONDS + 8)
    return with_job(place.start(settings={"run.collective_timeout_seconds": 8}), act) or place.resume_to_end()


def paused(bench, number, moment):
    place = bench.place(number, settings=LONG)

    def act(job):
        at_a_step(job, moment, 100)
        rank = moment.randrange(place.layout.ranks)
        job.signal_rank(signal.SIGSTOP, rank)
        time.sleep(moment.uniform(0.2, 2))
        job.signal_rank(signal.SIGCONT, rank)
        return ended(job, {0: None}, most=200)
    return with_job(place.start(), act) or kills.difference(place.broken, place.unbroken)


def slowed(bench, number, moment):
    """Slows one rank of four to a tenth of its speed."""
    layout = [Layout(4, 1), Layout(2, 2), Layout(1, 4), Layout(2, 1, context=2)]
    place = bench.place(number, ("decoder", "transformer_xl"), layout, SHORT)
    rank = moment.randrange(4)
    settings = {"training.max_steps": 10**7, "checkpoint.save_interval": 0, "training.validation.interval": 0}
    script, _ = bench.on_rank(place, rank, "slow 10")

    def act(job):
        begin, steps = time.monotonic(), 0
        while not job.ended() and "Straggler: " not in place.log() and (time.monotonic() - begin < 60 or steps < 100):
            time.sleep(0.1)
            steps = job.output().count("step ")
            if time.monotonic() - begin > 300:
                raise LeftOut(f"the machine is too busy: it made {steps} steps in 300 s")
        log = "\n".join(line for line in place.log().splitlines() if " step " not in line or "Straggler: " in line)
        if not re.search(rf"warning Straggler: rank {rank}: in the last \d+ steps the other ranks waited \d+% of the time", log):
            return f"the log does not name rank {rank}:\n{log}"
        job.signal(signal.SIGUSR1)
        return ended(job, {75: None})
    return with_job(place.start(settings=settings, program=script), act)


def out_of_memory(bench, number, moment):
    """Limits the memory of a rank to its current size, or slightly more."""
    place = bench.place(number, settings=LONG)

    def act(job):
        at_a_step(job, moment, 60)
        process = job.process_of(moment.randrange(place.layout.ranks))
        try:
            pages = int(Path(f"/proc/{process}/statm").read_text().split()[0])
            most = pages * resource.getpagesize() + moment.choice([0, 2**16, 2**20, 2**23])
            resource.prlimit(process, resource.RLIMIT_AS, (most, most))
        except (OSError, ValueError):
            raise Quicker from None
        return ended(job, {0: None, 1: ANY_MESSAGE, 134: LIBRARY_CRASH, 139: LIBRARY_CRASH}, most=200)
    return with_job(place.start(), act) or place.resume_to_end()


def exception(bench, number, moment):
    """Makes an allocation fail within a random phase of a run."""
    bench.phases = bench.phases or faults.places_of(bench.program)
    place = bench.place(number, settings=SHORT)
    phase = moment.choice(sorted(bench.phases))
    rank = 0 if phase in faults.ONLY_ON_RANK_0 else moment.randrange(place.layout.ranks)
    at = int(3000 ** moment.random())
    while True:
        script, struck = bench.on_rank(place, rank, f"new {at}", bench.phases[phase])

        def act(job):
            # Removals may fail with only a warning.
            return ended(job, {0: None, 1: ANY_MESSAGE}, most=200)
        name = f"allocation {at} within {phase} on rank {rank} of {place.name}"
        if why := with_job(place.start(program=script), act):
            return f"{name}: {why}"
        if struck.exists():
            why = place.resume_to_end()
            return f"{name}: {why}" if why else ""
        if at == 1:
            raise Quicker
        at = max(1, at // 10)
        place.forget()


def another_program(bench, number, moment):
    """Starts one rank with another command, which calls different collectives."""
    place = bench.place(number, settings=SHORT)
    rank = moment.randrange(place.layout.ranks)
    command = moment.choice(["evaluate unbroken", "generate unbroken --max-new-tokens 4 --prompt the", "verify unbroken"])
    script = faults.on_rank(place.directory, bench.program, rank, [f"exec {bench.program} {command}"])
    job = place.start(program=script, settings={"run.collective_timeout_seconds": 8})
    expected = {2: ANY_MESSAGE, 3: ANY_MESSAGE, 5: ANY_MESSAGE}
    return with_job(job, lambda job: ended(job, expected, 8 + MOST_SECONDS)) or place.resume_to_end()


def not_a_number(bench, number, moment):
    """Makes matrix products of one rank NaN: once, or permanently."""
    place = bench.place(number, settings=SHORT)
    rank = moment.randrange(place.layout.ranks)
    permanent = moment.random() < 0.5
    first = int(400 ** moment.random())
    script, struck = bench.on_rank(place, rank, f"nan {first} {10**9 if permanent else 1}")

    def act(job):
        if why := ended(job, {0: None, 4: "training diverged"}, most=200):
            return why
        if not struck.exists():
            raise Quicker
        log = place.broken.log()
        if job.wait().code == 0 and not re.search(r"skipped: loss|discarded|No samples|nan", log):
            metrics = place.broken.metrics_bytes()
            if b"nan" not in metrics and metrics != place.unbroken.metrics_bytes():
                return f"nothing tells of it:\n{log}"
        return ""
    why = with_job(place.start(program=script), act)
    where = f"from product {first} on" if permanent else f"in product {first}"
    return f"{where} on rank {rank} of {place.name}: {why}" if why else ""


def two_jobs(bench, number, moment):
    """Starts a second job while the first one is suspended: it waits some seconds and is rejected."""
    place = bench.place(number, settings=LONG)
    ranks = range(place.layout.ranks)

    def act(job):
        at_a_step(job, moment, 50)
        if not all([job.signal_rank(signal.SIGSTOP, rank) for rank in ranks]):
            raise Quicker
        why = with_job(place.start(), lambda second: ended(second, {2: "is in use by another run"}))
        for rank in ranks:
            job.signal_rank(signal.SIGCONT, rank)
        return why or ended(job, {0: None}, most=200)
    return with_job(place.start(), act) or kills.difference(place.broken, place.unbroken)


def clock(bench, number, moment):
    """Makes the wall clock of one rank jump back and forth."""
    place = bench.place(number, settings=SHORT)
    seconds = moment.choice([-1, 1]) * moment.choice([1, 3600, 86400 * 400, 10**9])
    script, struck = bench.on_rank(place, moment.randrange(place.layout.ranks), f"clock {seconds}")
    why = with_job(place.start(program=script), lambda job: ended(job, {0: None}, most=200))
    if not why and not struck.exists():
        raise Quicker
    return why or kills.difference(place.broken, place.unbroken)


def text(bench, number, moment):
    """Truncates, replaces, removes, overwrites or extends the training data."""
    place = bench.place(number, settings=LONG)
    path = place.directory / tiny_families.sections_of(FAMILIES[number % len(FAMILIES)])["data"]["train"]
    change = moment.choice(["cut to nothing", "cut in half", "replaced", "removed", "written over", "longer"])
    content, times = path.read_bytes(), path.stat()

    def act(job):
        at_a_step(job, moment, 50)
        if change.startswith("cut"):
            os.truncate(path, 0 if change == "cut to nothing" else len(content) // 2)
        elif change == "replaced":
            replacement = path.with_name("beside")
            replacement.write_bytes(content[::-1])
            replacement.rename(path)
        elif change == "removed":
            path.unlink()
        elif change == "written over":
            with open(path, "r+b") as file:
                file.write(content[::-1])
        else:
            with open(path, "ab") as file:
                file.write(content)
        if not change.startswith("cut"):
            return ended(job, {0: None}, most=200)
        # Examples may be in memory already.
        must = change == "cut to nothing" and FAMILIES[number % len(FAMILIES)] in TEXT_FAMILIES
        return ended(job, {3: path.name} if must else {0: None, 3: path.name}, most=200)
    try:
        why = with_job(place.start(), act)
    finally:
        path.write_bytes(content)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # recorded in checkpoints
    if not why and change in ("replaced", "removed", "longer"):
        why = kills.difference(place.broken, place.unbroken)
    if not why and change.startswith("cut"):
        why = place.resume_to_end()
    return f"{change}: {why}" if why else ""


# Name of a kind, its case, and the numbers of cases in the usual run and in all.
KINDS = (
    ("one rank is killed", killed, 0, 100),
    ("one rank is stopped", stopped, 1, 100),
    ("one rank is stopped for a while", paused, 1, 50),
    ("one rank of four is slowed to a tenth, and named", slowed, 1, 20),
    ("one rank gets no more memory", out_of_memory, 1, 200),
    ("an exception on one rank in each phase", exception, 2, 600),
    ("one rank runs another command", another_program, 1, 40),
    ("a NaN loss on one rank", not_a_number, 1, 200),
    ("two jobs in one directory", two_jobs, 1, 40),
    ("a clock that jumps on one rank", clock, 1, 60),
    ("a text that changes while it is read", text, 1, 120),
)


def judge(function, bench, number):
    """Returns what is wrong with the case. Raises LeftOut."""
    for attempt in range(ATTEMPTS):
        try:
            return function(bench, number, random.Random(number * 100 + attempt))
        except Quicker:
            continue
        except AssertionError as error:
            return str(error)
    raise LeftOut(f"the run was quicker than the fault {ATTEMPTS} times")


def main():
    counted = Counted(__doc__)
    with tempfile.TemporaryDirectory(prefix="longspan-test-") as directory:
        bench = Bench(counted.program, directory)
        for name, function, usual, full in KINDS:
            kind = counted.kind(name, usual, full)
            for number in kind:
                try:
                    why = judge(function, bench, number)
                    kind.fails(number, why) if why else kind.passed()
                except LeftOut as reason:
                    kind.leaves_out(number, reason)
    counted.end()


if __name__ == "__main__":
    main()
