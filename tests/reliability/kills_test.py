#!/usr/bin/env python3
"""kill -9 at any moment, in every family on six layouts: the resumed run equals the uninterrupted one bit for bit.

    tests/reliability/kills_test.py build/launch/longspan [--full] [--shard K/N] [--cases N] [--only NUMBER]

A case kills all processes, one rank, or mpirun, while the run starts, resumes, trains, saves asynchronously, or removes
an old step. Every fourth case kills again before the next step. One run has up to four kills; then it is resumed to its
end and compared.
"""

import random
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import kills
import tiny_families
from counted import Counted
from jobs import Layout
from place import Place

FULL = 1200
IN_ONE_RUN = 4
ATTEMPTS = 6  # per kill, if the run was faster
LAYOUTS = (Layout(1, 1), Layout(2, 1), Layout(1, 2), Layout(1, 1, context=2), Layout(2, 2),
           Layout(1, 2, context=2, sequence=True))
PLACES = [(family, layout) for family in tiny_families.FAMILIES for layout in LAYOUTS]
# Each place is equally frequent, and a few cases that are spread evenly cover many places.
PLACE_OF = [number % len(PLACES) for number in random.Random(1).sample(range(FULL), FULL)]


def kill(place, when, which, moment):
    job = place.start()
    try:
        return kills.kill(job, place.broken, when, which, moment, 1.2 * place.start_seconds)
    finally:
        job.close()


def moment_of(number):
    """Returns the phase in which the case kills the run, and the random source of the rest of the case."""
    source = random.Random(number)
    return source.choice(["starting", "resuming", "training", "saving", "saving", "removing"]), source


def judge_case(place, number):
    """Kills the run of case `number`. Returns the problem so far, "", or None if the run was always faster."""
    when, moment = moment_of(number)
    which = moment.choice(["all", "mpirun", moment.randrange(place.layout.ranks), moment.randrange(place.layout.ranks)])
    which = which if place.layout.ranks > 1 else "all"
    if when == "resuming" and not place.broken.steps():
        kill(place, "training", "all", moment)
    for _ in range(ATTEMPTS):
        if kill(place, "starting" if when == "resuming" else when, which, moment):
            if number % 4 == 0:
                kill(place, "starting", moment.choice(["all", "mpirun"]), moment)
            return ""
        if why := kills.difference(place.broken, place.unbroken):
            return f"not killed: {why}"
        place.forget()
        if when == "resuming":
            kill(place, "training", "all", moment)
    return None


def chains_of(numbers):
    """Returns (place, numbers of the kills in one run), with all runs of a place in sequence."""
    chains = []
    for number in sorted(numbers, key=lambda number: (PLACE_OF[number], number)):
        place = PLACE_OF[number]
        if not chains or chains[-1][0] != place or len(chains[-1][1]) == IN_ONE_RUN or moment_of(number)[0] == "starting":
            chains.append((place, []))
        chains[-1][1].append(number)
    return chains


def end_chain(kind, place, numbers, why):
    if not why:
        for _ in numbers:
            kind.passed()
        return
    kept = tempfile.mkdtemp(prefix="longspan-kept-")
    if place.broken.path.exists():
        shutil.copytree(place.broken.path, Path(kept) / "broken")
        shutil.copytree(place.unbroken.path, Path(kept) / "unbroken")
    for number in numbers:
        kind.fails(number, f"{place.name}, after the kills {numbers} (kept in {kept}): {why}")


def main():
    counted = Counted(__doc__)
    kind = counted.kind("kill -9 and resume, bit for bit", 6, FULL)
    chains = chains_of(kind.numbers)
    kind.numbers = [number for _, chain in chains for number in chain]
    ends = {chain[-1]: chain for _, chain in chains}
    current, place, problem, killed = None, None, "", []
    with tempfile.TemporaryDirectory(prefix="longspan-test-") as directory:
        for number in kind:
            try:
                if current != PLACE_OF[number]:
                    current = PLACE_OF[number]
                    place = Place(counted.program, Path(directory) / "place", *PLACES[current])
                    place.train_unbroken()
                found = None if problem else judge_case(place, number)
            except AssertionError as error:
                found = str(error)
            if found is None and not problem:
                kind.leaves_out(number, f"{place.name}: the run was quicker {ATTEMPTS} times")
            else:
                killed.append(number)
                problem = problem or found
            if number in ends:
                try:
                    problem = problem or (place.resume_to_end() if killed else "")
                except AssertionError as error:
                    problem = str(error)
                end_chain(kind, place, killed, problem)
                place.forget()
                problem, killed = "", []
    counted.end()


if __name__ == "__main__":
    main()
