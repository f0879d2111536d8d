"""Runs that are killed somewhere, and whether they went on afterwards as if nothing had been."""

import signal
import time

from jobs import until

# What mpirun, or the one process, ends with; 1 where mpirun lost a rank while it started.
KILLED = (137, -9, 124, 1)


def kill(job, run, when, which, moment, start_seconds=0.5, kept=2):
    """Kills "all" processes of the job, "one" rank, "mpirun", or the rank of a number; False when the job was quicker.

    `when`: "starting" (anywhere in the first `start_seconds`), "training", "saving" or "removing" (with checkpoint.keep_latest
    `kept`); `moment`: a random.Random that says where in it. Raises AssertionError where the job ends otherwise, or leaves
    processes.
    """
    if when == "starting":
        time.sleep(moment.uniform(0, start_seconds))
    else:
        step = max(run.steps(), default=0) + moment.randint(1, 6)
        until(lambda: job.ended() or f"step {step}/" in job.output())
        if when == "saving":
            until(lambda: job.ended() or run.is_saving())
        if when == "removing":
            # It is over in no time: from when there is one too many.
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
    """The files of a run's directory, but for those that a run which saved nothing left to the next one."""
    return sorted(path.name for path in run.path.iterdir() if ".before-" not in path.name)


def difference(run, unbroken):
    """What is otherwise in a run that was killed and went on to its end; empty where it is bit for bit the same."""
    found, wanted = run.metrics_bytes().splitlines(), unbroken.metrics_bytes().splitlines()
    for number, (line, reference) in enumerate(zip(found, wanted), start=1):
        if line != reference:
            return f"line {number} of metrics.jsonl is\n{line.decode()}\nwanted\n{reference.decode()}"
    if len(found) != len(wanted):
        return f"metrics.jsonl has {len(found)} lines, wanted {len(wanted)}"
    last = unbroken.steps()[-1]
    if run.steps()[-1:] != [last]:
        return f"the last step that is saved is not {last}: {run.entries()}"
    state, expected = run.state(last), unbroken.state(last)
    for part in state:
        if state[part] != expected[part]:
            names = sorted(name for name in state[part] if state[part][name] != expected[part].get(name)) if part in (
                "tensors", "scalars") else [f"{state[part]}, wanted {expected[part]}"]
            return f"the state of step {last} has other {part}: {names}"
    if (names := names_in(run)) != names_in(unbroken):
        return f"the directory of the run has {names}, wanted {names_in(unbroken)}"
    if run.entries() != [f"step-{step:09}" for step in run.steps()]:
        return f"left over in checkpoints/: {run.entries()}"
    return ""


def go_on(start, run, unbroken, verify):
    """Starts the killed run once more; why it is not what the unbroken one is. `verify` runs longspan verify on it."""
    result = start().wait()
    if result.code != 0:
        return f"started again it ends with {result.code}\n{result.output}{result.errors}"
    if why := difference(run, unbroken):
        return why
    result = verify()
    return "" if result.code == 0 else f"longspan verify: {result.output}{result.errors}"
