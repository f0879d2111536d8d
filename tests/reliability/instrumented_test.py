#!/usr/bin/env python3
"""Runs that save, stop and resume under the thread sanitizer and under Valgrind.

    tests/reliability/instrumented_test.py build/launch/longspan [--full] [--shard K/N] [--cases N] [--only NUMBER]

A case is a tiny run of a family on a layout with all background threads (prefetching of data, asynchronous saves, the
Prometheus endpoint). It receives a request to stop and is resumed. It runs in the builds next to that directory:

    build-threads    launch/setup --preset threads     the thread sanitizer reports races
    build-portable   launch/setup --preset portable    Valgrind's memcheck, which does not support AVX-512, reports
                     reads of uninitialized memory and accesses out of bounds

Every report fails the case. If a build or Valgrind is missing, its kind is skipped. Open MPI, HDF5 and the OpenMP
library are not instrumented: the thread sanitizer ignores them, and each rank computes on one thread.
"""

import os
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import tiny_families
from counted import Counted
from jobs import SOURCE, Layout, until
from place import Place

LAYOUTS = (Layout(1, 1), Layout(2, 1), Layout(1, 2, context=2, sequence=True))
MOST_SECONDS = 1200  # per job: instrumented jobs may be fifty times slower
PLACES = [(family, layout) for layout in LAYOUTS for family in tiny_families.FAMILIES]
OPEN_MPI = "/usr/share/openmpi/openmpi-valgrind.supp"  # its known reports
THREADS = f"""#!/bin/sh
export TSAN_OPTIONS="log_path=$PWD/report ignore_noninstrumented_modules=1 suppressions={SOURCE}/tests/support/races.txt"
exec setarch --addr-no-randomize PROGRAM "$@"
"""
MEMORY = f"""#!/bin/sh
exec valgrind --quiet --leak-check=no --error-exitcode=99 --log-file="$PWD/report.%p" \\
  --suppressions={OPEN_MPI} --suppressions={SOURCE}/tests/support/memcheck.txt PROGRAM "$@"
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def reported(directory):
    """Returns the reports of the instrumented processes, or ""."""
    lines = [line for path in sorted(directory.glob("report*")) for line in path.read_text(errors="replace").splitlines()]
    # Lines that start with dashes are about Valgrind itself, for example an unsupported system call.
    return "\n".join(line for line in lines if line.strip() and not line.startswith("--"))[:6000]


def judge(place, wrapper):
    """Returns the problem of a run that is stopped and resumed, or ""."""
    asked_to_stop = place.start(program=wrapper)
    resumed = None
    try:
        if not until(lambda: asked_to_stop.ended() or "step 4/" in asked_to_stop.output(), MOST_SECONDS):
            return f"it does not come to step 4; it said\n{asked_to_stop.output()[-2000:]}"
        asked_to_stop.signal(signal.SIGUSR1)
        for job, codes in ((asked_to_stop, (0, 75)), (None, (0,))):
            job = resumed = job or place.start(program=wrapper)
            result = job.wait(MOST_SECONDS)
            if found := reported(place.directory):
                return found
            if result.code not in codes:
                return f"it ended with {result.code}\n{result.output[-2000:]}{result.errors[-2000:]}"
    finally:
        asked_to_stop.close()
        if resumed:
            resumed.close()
    return "" if place.broken.steps()[-1:] == [12] else f"the run has the steps {place.broken.steps()}"


def run_cases(kind, program, script):
    with tempfile.TemporaryDirectory(prefix="longspan-test-") as directory:
        for number in kind:
            settings = {"training.max_steps": 12, "checkpoint.save_interval": 2, "metrics.num_samples": 0,
                        "metrics.enable_tensorboard": "true",
                        "metrics.prometheus_port": free_port()}
            try:
                place = Place(program, Path(directory) / "place", *PLACES[number], settings)
                wrapper = place.directory / "watched"
                wrapper.write_text(script.replace("PROGRAM", program))
                wrapper.chmod(0o755)
                found = judge(place, wrapper)
            except AssertionError as error:
                found = str(error)
            kind.fails(number, f"{place.name}: {found}") if found else kind.passed()


def main():
    counted = Counted(__doc__)
    builds = Path(counted.program).parents[2]
    for name, what, script, is_there in (
        ("build-threads", "races between threads", THREADS, True),
        ("build-portable", "memory used wrongly", MEMORY, shutil.which("valgrind") and os.path.exists(OPEN_MPI)),
    ):
        program = builds / name / "launch" / "longspan"
        if program.exists() and is_there:
            run_cases(counted.kind(what, 2, len(PLACES)), str(program), script)
        else:
            print(f"{what}: not looked at without {name}/launch/longspan" + (" and Valgrind" if not is_there else ""))
    counted.end()


if __name__ == "__main__":
    main()
