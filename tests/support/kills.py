"""Kills runs at random points and checks that they resume bit for bit."""

import signal
import time

from jobs import until

# Exit codes of mpirun or of the single process; 1: mpirun lost a rank during startup.
KILLED = (137, -9, 124, 1)


def kill(job, run, when, which, moment, start_seconds=0.5, kept=2):
    """Kills "all" processes of the job, "one" rank, "mpirun", or the rank with a number; False if the job finished first.

    `when`: "starting" (in the first `start_seconds`), "training", "saving" or "removing" (with checkpoint.keep_latest `kept`).
    `moment`: a random.Random that selects the point within it. Raises AssertionError if the job ends with another exit code
    or leaves processes.
    """
    if when == "starting":
        time.sleep(moment.uniform(0, start_seconds))
    else:
        step = max(run.steps(), default=0) + moment.randint(1, 6)
        until(lambda: job.ended() or f"step {step}/" in job.output())
        if when == "saving":
            until(lambda: job.ended() or run.is_saving())
        if when == "removing":
            # Removal is fast: start waiting when there is one step too many.
            until(lambda: job.ended() or run.is_removing() or len(run.steps()) > kept)
    time.sleep(moment.uniform(0, 0.03 if when != "removing" else 0.005))
    if isinstance(which, int):
        until(lambda: job.ended() or job.signal_rank(signal.SIGKILL, which))
    else:
        job.signal(signal.SIGKILL, which)
    result = job.wait()
    if result.code == 0:
        return False
    if result.code not in KILLED:
        raise AssertionError(f"exit code {result.code} after a kill\n{result.output}{result.errors}")
    return True


def names_in(run):
    """Returns the files of a run directory, except those renamed from a run that saved nothing."""
    return sorted(path.name for path in run.path.iterdir() if ".before-" not in path.name)


def difference(run, unbroken):
    """Returns how a killed and resumed run differs from the uninterrupted one; "" if they are equal bit for bit."""
    found, expected_lines = run.metrics_bytes().splitlines(), unbroken.metrics_bytes().splitlines()
    for number, (line, reference) in enumerate(zip(found, expected_lines), start=1):
        if line != reference:
            return f"line {number} of metrics.jsonl: expected\n{reference.decode()}\nfound\n{line.decode()}"
    if len(found) != len(expected_lines):
        return f"metrics.jsonl: expected {len(expected_lines)} lines, found {len(found)}"
    last = unbroken.steps()[-1]
    if run.steps()[-1:] != [last]:
        return f"expected the last checkpoint at step {last}, found {run.entries()}"
    state, expected = run.state(last), unbroken.state(last)
    for part in state:
        if state[part] != expected[part]:
            names = sorted(name for name in state[part] if state[part][name] != expected[part].get(name)) if part in (
                "tensors", "scalars") else f"expected {expected[part]}, found {state[part]}"
            return f"step {last}: different {part}: {names}"
    if (names := names_in(run)) != names_in(unbroken):
        return f"run directory: expected {names_in(unbroken)}, found {names}"
    if run.entries() != [f"step-{step:09}" for step in run.steps()]:
        return f"unexpected files in checkpoints/: {run.entries()}"
    return ""


def go_on(start, run, unbroken, verify):
    """Resumes the killed run; returns how it differs from the uninterrupted one. `verify` runs longspan verify on it."""
    result = start().wait()
    if result.code != 0:
        return f"the resumed run ended with exit code {result.code}\n{result.output}{result.errors}"
    if why := difference(run, unbroken):
        return why
    result = verify()
    return "" if result.code == 0 else f"longspan verify: {result.output}{result.errors}"
