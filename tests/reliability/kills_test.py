#!/usr/bin/env python3
"""Kill -9 at any moment, in every family on six layouts: started again, a run ends bit for bit as the unbroken one does.

    tests/reliability/kills_test.py build/launch/longspan [--full] [--share K/N] [--cases N] [--only NUMBER]

A case is a kill of all processes, of one rank, or of mpirun, while the run starts, resumes, trains, saves beside the
training, or removes an old step; every fourth one is killed once more before it has made a step. Up to four kills are
made in one run before it may go on to its end and is compared.
"""

import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import kills
import tiny_families
from counted import Counted
from jobs import Job, Layout, Run, flat, until

FULL = 1200
IN_ONE_RUN = 4
ATTEMPTS = 6  # of a kill, where the run was quicker
LAYOUTS = (Layout(1, 1), Layout(2, 1), Layout(1, 2), Layout(1, 1, context=2), Layout(2, 2),
           Layout(1, 2, context=2, sequence=True))
PLACES = [(family, layout) for family in tiny_families.FAMILIES for layout in LAYOUTS]
# Each place comes as often as any other, and few cases that are spread over all of them meet many places.
PLACE_OF = [number % len(PLACES) for number in random.Random(1).sample(range(FULL), FULL)]


class Place:
    """A family on a layout: its unbroken run, and one that is killed."""

    def __init__(self, program, directory, family, layout):
        self.program, self.directory, self.layout = program, directory, layout
        self.file = tiny_families.write(directory, family)
        self.unbroken, self.broken = Run(directory / "unbroken"), Run(directory / "broken")
        self.start_seconds = self._train_unbroken()

    def start(self, directory="broken", settings=None):
        every = {"run.directory": directory, **self.layout.settings(), **(settings or {})}
        return Job(self.program, ["train", self.file, *flat(every)], self.layout.ranks, self.directory)

    def _train_unbroken(self):
        """Returns the seconds until its first step."""
        begin = time.monotonic()
        job = self.start("unbroken", {"checkpoint.every": 0})
        until(lambda: job.ended() or "step 1/" in job.output())
        seconds = time.monotonic() - begin
        result = job.wait()
        job.close()
        if result.code != 0:
            raise AssertionError(f"the unbroken run ends with {result.code}\n{result.output}{result.errors}")
        return seconds

    def verify(self):
        job = Job(self.program, ["verify", self.broken.path], directory=self.directory)
        result = job.wait()
        job.close()
        return result

    def compare(self):
        """Lets the broken run go on to its end; what is wrong with it."""
        job = self.start()
        try:
            return kills.go_on(lambda: job, self.broken, self.unbroken, self.verify)
        finally:
            job.close()

    def kill(self, when, which, moment):
        job = self.start()
        try:
            return kills.kill(job, self.broken, when, which, moment, 1.2 * self.start_seconds)
        finally:
            job.close()

    def forget(self):
        shutil.rmtree(self.broken.path, ignore_errors=True)


def moment_of(number):
    """What a case's run does when it is killed, and where the rest of what is random in the case comes from."""
    source = random.Random(number)
    return source.choice(["starting", "resuming", "training", "saving", "saving", "removing"]), source


def judge_case(place, number):
    """Kills the run as the number says; what is wrong already, or None where the run was quicker again and again."""
    when, moment = moment_of(number)
    which = moment.choice(["all", "mpirun", moment.randrange(place.layout.ranks), moment.randrange(place.layout.ranks)])
    which = which if place.layout.ranks > 1 else "all"
    if when == "resuming" and not place.broken.steps():
        place.kill("training", "all", moment)
    for _ in range(ATTEMPTS):
        if place.kill("starting" if when == "resuming" else when, which, moment):
            if number % 4 == 0:
                place.kill("starting", moment.choice(["all", "mpirun"]), moment)
            return ""
        if why := kills.difference(place.broken, place.unbroken):
            return f"not killed: {why}"
        place.forget()
        if when == "resuming":
            place.kill("training", "all", moment)
    return None


def chains_of(numbers):
    """(place, the numbers of kills in one run), with all runs of a place one after another."""
    chains = []
    for number in sorted(numbers, key=lambda number: (PLACE_OF[number], number)):
        place = PLACE_OF[number]
        if not chains or chains[-1][0] != place or len(chains[-1][1]) == IN_ONE_RUN or moment_of(number)[0] == "starting":
            chains.append((place, []))
        chains[-1][1].append(number)
    return chains


def end_chain(kind, place, name, numbers, why):
    if not why:
        for _ in numbers:
            kind.passed()
        return
    kept = tempfile.mkdtemp(prefix="longspan-kept-")
    if place.broken.path.exists():
        shutil.copytree(place.broken.path, Path(kept) / "broken")
        shutil.copytree(place.unbroken.path, Path(kept) / "unbroken")
    for number in numbers:
        kind.fails(number, f"{name}, after the kills {numbers} (kept in {kept}): {why}")


def main():
    counted = Counted(__doc__)
    kind = counted.kind("kill -9 and resume, bit for bit", 8, FULL)
    chains = chains_of(kind.numbers)
    kind.numbers = [number for _, chain in chains for number in chain]
    ends = {chain[-1]: chain for _, chain in chains}
    current, place, trouble, killed = None, None, "", []
    with tempfile.TemporaryDirectory(prefix="longspan-test-") as directory:
        for number in kind:
            family, layout = PLACES[PLACE_OF[number]]
            name = f"{family} on {layout}"
            try:
                if current != PLACE_OF[number]:
                    current = PLACE_OF[number]
                    shutil.rmtree(Path(directory) / "place", ignore_errors=True)
                    os.mkdir(Path(directory) / "place")
                    place = Place(counted.program, Path(directory) / "place", family, layout)
                found = None if trouble else judge_case(place, number)
            except AssertionError as error:
                found = str(error)
            if found is None and not trouble:
                kind.leaves_out(number, f"{name}: the run was quicker {ATTEMPTS} times")
            else:
                killed.append(number)
                trouble = trouble or found
            if number in ends:
                try:
                    trouble = trouble or (place.compare() if killed else "")
                except AssertionError as error:
                    trouble = str(error)
                end_chain(kind, place, name, killed, trouble)
                place.forget()
                trouble, killed = "", []
    counted.end()


if __name__ == "__main__":
    main()
