#!/usr/bin/env python3
"""Jobs in which one rank fails: exit code, message, time, and leftover processes and files.

    tests/distributed/failures_test.py build/tests/distributed_failing_job
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from jobs import MPIRUN, errors_of_ranks, left_behind, processes_with

PLACE = r"at tests/distributed/failing_job\.cpp:\d+"
REDUCE = rf"all_reduce of 100 f32 {PLACE}"
SILENT = (r"rank \d: rank {} did not respond within 1 s \(killed, stopped or hung\); this rank waited "
          rf'[\d.]+ s in collective \d+ on "world" \({REDUCE}\)')
DIFFER = r'rank \d: collective \d+ on "world": rank 1 called {}, ranks 0 and 2 called ' + REDUCE
NOT_COME = r'rank {} has not reached it and is waiting in collective \d+ on "{}" \({}\)'

# Failure, rank, exit code, pattern of standard error (None: not checked).
CASES = [
    ("none", 0, 0, ""),
    ("stop", 1, 5, SILENT.format(1)),
    ("stop", 0, 5, SILENT.format(0)),
    ("hang", 1, 5, SILENT.format(1)),
    ("kill", 1, 137, ""),
    ("kill", 0, 137, ""),
    ("crash", 1, 139, None),
    ("throw", 1, 3, r"rank 1: train\.txt: line 7 is not text"),
    ("all", 0, 2, r"rank \d: config\.yaml:3:1: unknown key `modell`"),
    ("mismatch", 1, 5, DIFFER.format(rf"broadcast of 10 f32 from rank 0 {PLACE}")),
    ("shorter", 1, 5, DIFFER.format(rf"all_reduce of 99 f32 {PLACE}")),
    # The reporter is the end of rank 1's Session, or another rank's main, which adds its rank.
    ("return", 1, 5, "(longspan|rank [02]): " + DIFFER.removeprefix(r"rank \d: ").format(r"barrier at framework/distributed/session\.cpp:\d+")),
    ("elsewhere", 1, 5,
     r"rank \d: this rank waited [\d.]+ s in collective \d+ on \"(other|world)\" .*" +
     "(" + NOT_COME.format(1, "other", rf"all_reduce of 1 f64 {PLACE}") +
     "|" + NOT_COME.format(0, "world", REDUCE) + ").*"),
    ("exit", 1, 1, None),
]
# Failures on GPUs with NCCL.
BY_NCCL = rf'this rank waited [\d.]+ s in collective \d+ on "data" \({REDUCE}\)'
NCCL_CASES = [
    ("stop", 1, 5, r"rank \d: rank 1 did not respond within 1 s \(killed, stopped or hung\); " + BY_NCCL),
    ("absent", 1, 5, r"rank \d: rank 1 did not respond within 1 s \(killed, stopped or hung\); this rank waited "
     r'[\d.]+ s in collective \d+ on "data" \(all_reduce of 1 f32 at framework/distributed/gpu_collectives\.cpp:\d+\)'),
    # The other ranks wait inside CUDA, without a check for failed ranks.
    ("blocks", 1, 5, r'rank \d: NCCL reports on "data": aborted: this rank did not return from a CUDA call; '
     r"rank 1 did not respond within 1 s \(killed, stopped or hung\); " + BY_NCCL),
    # Rank 1 also waits, inside a call to NCCL.
    ("call", 1, 5, r'rank 1: NCCL reports on "data": aborted: this rank did not return from a CUDA call; '
     r"" + BY_NCCL + "|rank [02]: rank 1 did not respond within 1 s \(killed, stopped or hung\); " + BY_NCCL),
    ("refuses", 1, 5, r'rank 1: NCCL reports on "data": unhandled system error \(made for a test\); this rank waited '
     r'[\d.]+ s in collective \d+ on "data" \(all_reduce of 1 f32 at framework/distributed/gpu_collectives\.cpp:\d+\); '
     r"set parallel\.gpu_backend to mpi .*"),
    ("throw", 1, 3, r"rank 1: train\.txt: line 7 is not text"),
    ("mismatch", 1, 5, DIFFER.format(rf"broadcast of 10 f32 from rank 0 {PLACE}").replace("world", "data")),
    # Rank 0 may be one collective behind.
    ("error", 1, 5, r'rank 1: NCCL reports on "data": unhandled system error \(made for a test\); ' + BY_NCCL
     + r"(; rank 0 has not reached it and is waiting in [^\n]*)?"),
]
# Seconds: 2 for the limit of a collective, 1 for the reply timeout, 1 or 2 for mpirun to end stopped processes.
# The rest is for busy machines.
MOST_SECONDS = 30
AT_ONCE = 3  # jobs, which mostly wait


def check(condition, problems, text):
    if not condition:
        problems.append(text)


def run_case(program, failure, rank, code, expected, transport, number):
    mark = f"LONGSPAN_TEST_JOB={os.getpid()}-{number}."
    name, value = mark.split("=")
    problems = []
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, name: value, "TMPDIR": directory, "LONGSPAN_TIME_LIMIT": "60"}
        begin = time.monotonic()
        job = subprocess.run([MPIRUN, "3", program, failure, str(rank), *transport],
                             env=environment, capture_output=True, text=True, timeout=120, check=False)
        seconds = time.monotonic() - begin
        check(job.returncode == code, problems, f"exit code {job.returncode}, expected {code}")
        if expected is not None:
            errors = errors_of_ranks(job.stderr)
            check(re.fullmatch(expected, errors.strip()), problems,
                  f"standard error is\n{errors}\nexpected to match\n{expected}")
        check(seconds < MOST_SECONDS, problems, f"took {seconds:.1f} s")
        check(not (found := left_behind(mark)), problems, f"still running: {found}")
    return seconds, problems


def shared_memory_of(mark):
    """Files in /dev/shm that processes of a job map; other jobs may run at the same time."""
    files = set()
    for process, _ in processes_with(mark):
        try:
            files |= set(re.findall(r"/dev/shm/\S+", Path(f"/proc/{process}/maps").read_text()))
        except OSError:
            pass  # it has exited
    return files


def killed_mpirun(program):
    """After mpirun is killed, its ranks end and leave no shared memory."""
    mark = f"LONGSPAN_TEST_JOB={os.getpid()}-mpirun"
    name, value = mark.split("=")
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, name: value, "TMPDIR": directory}
        with subprocess.Popen([MPIRUN, "3", program, "hang", "1"], env=environment,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as job:
            time.sleep(1)
            mapped = shared_memory_of(mark)
            for process, command in processes_with(mark):
                if command.startswith("mpirun"):
                    os.kill(process, signal.SIGKILL)
            job.wait(timeout=60)
        problems = []
        check(not (found := left_behind(mark)), problems, f"still running: {found}")
        check(mapped, problems, "the ranks map no file in /dev/shm")
        rest = {file for file in mapped if os.path.exists(file)}
        check(not rest, problems, f"left in /dev/shm: {sorted(rest)}")
    return problems


def main():
    program = sys.argv[1]
    failed = 0
    rows = [(*case, transport) for transport, cases in (([], CASES), (["--messages"], CASES), (["--nccl"], NCCL_CASES))
            for case in cases]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = [pool.submit(run_case, program, *row, number) for number, row in enumerate(rows)]
        for (failure, rank, _, _, transport), result in zip(rows, results, strict=True):
            seconds, problems = result.result()
            title = " ".join([failure, f"on rank {rank}", *transport])
            print(f"{'FAILED' if problems else 'ok':6} {title} ({seconds:.1f} s)", flush=True)
            failed += bool(problems)
            for problem in problems:
                print(f"       {problem}")
    problems = killed_mpirun(program)
    print(f"{'FAILED' if problems else 'ok':6} mpirun killed")
    for problem in problems:
        print(f"       {problem}")
    return 1 if failed or problems else 0


if __name__ == "__main__":
    sys.exit(main())
