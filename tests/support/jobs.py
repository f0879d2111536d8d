"""Jobs of one or several ranks, for tests that start, stop and inspect them.

Run a test that uses `TestCase` as   tests/launch/NAME_test.py PROGRAM [unittest's arguments]
"""

import collections
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
MPIRUN = SOURCE / "tests" / "support" / "mpirun"

# Settings that make the loss non-finite after the first update.
DIVERGING = {"training.optimizer.type": "sgd", "training.learning_rate": 1e30, "training.max_grad_norm": 0,
             "training.max_consecutive_skips": 3, "training.max_steps": 50, "training.lr_scheduler.warmup_steps": 0,
             "training.lr_scheduler.type": "constant", "checkpoint.save_interval": 0}

# A job that runs longer counts as hung, even on a busy machine.
MOST_SECONDS = 240

# mpirun then kills the other ranks of a failed rank at once. By default it waits a second after each of two signals.
NO_GRACE = {"OMPI_MCA_odls_base_sigkill_timeout": "0"}


def processes_with(mark):
    """Returns (id, command) of the running processes whose environment contains the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append((int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
        except OSError:
            pass  # it has exited, or belongs to another user
    return found


def left_behind(mark):
    """Returns the processes that still run 10 s after the end of the job, and kills them."""
    for _ in range(100):
        found = processes_with(mark)
        if not found:
            return []
        time.sleep(0.1)
    for process, _ in found:
        os.kill(process, signal.SIGKILL)
    return found


def until(condition, seconds=MOST_SECONDS):
    """Waits until the condition is true; returns its value, or None after a timeout."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.002)
    return None


class Layout(collections.namedtuple("Layout", "data tensor context sequence", defaults=(1, False))):
    @property
    def ranks(self):
        return self.data * self.context * self.tensor

    def settings(self):
        return {"parallel.data_parallel_size": self.data, "parallel.tensor_parallel_size": self.tensor,
                "parallel.context_parallel_size": self.context,
                "parallel.sequence_parallel": self.sequence}

    def __str__(self):
        sequence = " with sequence parallelism" if self.sequence else ""
        return f"data {self.data} x context {self.context} x tensor {self.tensor}{sequence}"


Result = collections.namedtuple("Result", "code output errors")

# Occasionally mpirun (Open MPI) closes the pipe of a killed rank before it removes the pipe from its libevent loop; libevent
# then prints a harmless warning (https://github.com/open-mpi/ompi/issues/5520).
_PIPE_OF_MPIRUN = re.compile(r"^\[warn\] Epoll (ADD|MOD|DEL)\(\d+\) on fd \d+ failed\. .*\n", re.MULTILINE)


def errors_of_ranks(errors):
    """Returns the standard error of a job without the pipe warning of mpirun."""
    return _PIPE_OF_MPIRUN.sub("", errors)


class Job:
    """A run of `program`: one process without mpirun, or several ranks."""

    numbers = itertools.count()

    def __init__(self, program, arguments, ranks=1, directory=".", environment=None):
        name, value = "LONGSPAN_TEST_JOB", f"{os.getpid()}-{next(self.numbers)}."
        self.mark = f"{name}={value}"
        self.program = str(program)
        self._output = tempfile.TemporaryFile()
        self._errors = tempfile.TemporaryFile()
        command = [self.program, *map(str, arguments)]
        if ranks > 1:
            command = [str(MPIRUN), str(ranks), *command]
        self._process = subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL,
                                         stdout=self._output, stderr=self._errors,
                                         env={"OMP_NUM_THREADS": "1", **os.environ, **(environment or {}), name: value,
                                              "CUDA_VISIBLE_DEVICES": "",  # the same jobs on all machines
                                              "TMPDIR": str(directory)})  # temporary files of mpirun

    def output(self):
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode()

    def errors(self):
        size = os.fstat(self._errors.fileno()).st_size
        return errors_of_ranks(os.pread(self._errors.fileno(), size, 0).decode())

    def ended(self):
        return self._process.poll() is not None

    def signal(self, number, which="mpirun"):
        """Sends a signal to "mpirun" (the program if there is no mpirun), to "all" processes or to "one" rank."""
        processes = processes_with(self.mark)
        ranks = [process for process, command in processes if command.startswith(self.program)]
        mpirun = [process for process, command in processes if command.startswith("mpirun")]
        chosen = {"mpirun": mpirun or ranks, "one": ranks[-1:],
                  "all": [process for process, _ in processes]}[which]
        for process in chosen:
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass  # it has exited
        # Processes started in the meantime were missed.
        if which == "all" and number == signal.SIGKILL and chosen:
            self.signal(number, which)

    def process_of(self, rank):
        """Returns the process id of a rank, or None before it has started."""
        for process, command in processes_with(f"OMPI_COMM_WORLD_RANK={rank}\0"):
            if command.startswith(self.program) and process in dict(processes_with(self.mark)):
                return process
        return None

    def signal_rank(self, number, rank):
        """Sends a signal to a rank; returns whether it exists."""
        process = self.process_of(rank)
        if process is None:
            return False
        try:
            os.kill(process, number)
        except ProcessLookupError:
            return False
        return True

    def wait(self, seconds=MOST_SECONDS):
        """Returns when the job and all its processes have exited."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL, "all")
            self._process.wait()
            raise AssertionError(f"the job hangs; its output:\n{self.output()}{self.errors()}") from None
        found = left_behind(self.mark)
        if found:
            raise AssertionError(f"still running: {found}")
        return Result(self._process.returncode, self.output(), self.errors())

    def close(self):
        if not self.ended():
            self.signal(signal.SIGKILL, "all")
            self._process.wait()
        self._output.close()
        self._errors.close()


def write_text(path, words=6000, seed=1):
    """Writes a training corpus with a small vocabulary."""
    source = random.Random(seed)
    known = "the lord said unto moses and israel went out of egypt in that day . he was not".split()
    path.write_text(" ".join(source.choice(known) for _ in range(words)) + "\n")


def flat(settings):
    """["--set", "a.b=1", ...] of {"a.b": 1, ...}."""
    def value(found):
        return str(found).lower() if isinstance(found, bool) else str(found)
    return [word for key, found in settings.items() for word in ("--set", f"{key}={value(found)}")]


def bytes_of(plan, line):
    """Bytes in a line of `longspan plan`: "peak", "weights", ..."""
    number, unit = re.search(rf"(?m)^  {line} +([\d.]+) (\w+)", plan).groups()
    return float(number) * {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]


class Run:
    """The directory of a run."""

    def __init__(self, path):
        self.path = Path(path)

    def metrics_bytes(self):
        return (self.path / "metrics.jsonl").read_bytes()

    def metrics(self):
        return [json.loads(line) for line in self.metrics_bytes().splitlines()]

    def log(self):
        return (self.path / "log.txt").read_text()

    def entries(self):
        """Returns the names in checkpoints/."""
        try:
            return sorted(os.listdir(self.path / "checkpoints"))
        except FileNotFoundError:
            return []

    def steps(self):
        """Returns the saved steps, oldest first."""
        return [int(name[5:]) for name in self.entries() if name[5:].isdigit()]

    def is_saving(self):
        return any(".tmp-" in name for name in self.entries())

    def is_removing(self):
        return any(".removed-" in name for name in self.entries())

    def checkpoint(self, step):
        return self.path / "checkpoints" / f"step-{step:09}"

    def state(self, step):
        """Returns the complete training state, with tensors as hashes."""
        manifest = json.loads((self.checkpoint(step) / "manifest.json").read_text())
        return {name: manifest[name] for name in ("step", "layout", "tensors", "scalars")}


def merged(sections, others):
    """Merges two configurations by section; values of `others` have priority."""
    return {**sections, **{name: merged(sections[name], value) if isinstance(value, dict) and isinstance(sections.get(name), dict)
                           else value for name, value in others.items()}}


def damage(path):
    """Flips one bit in the middle of a file."""
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 16]))


class TestCase(unittest.TestCase):
    """Runs each test in its own directory, with tiny.yaml, a small model that trains on text.txt."""

    program = None
    grace = NO_GRACE  # environment of jobs that are expected to fail
    sections = {
        "run": {"output_dir": "run", "num_threads": 1},
        "model": {"family": "transformer_xl", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4,
                  "mem_len": 8, "dropout": 0.1},
        "data": {"train": "text.txt", "global_batch_size": 8, "seq_length": 8},
        "training": {"max_steps": 8, "learning_rate": 0.01, "lr_scheduler": {"warmup_steps": 2}},
        "checkpoint": {"save_interval": 4, "keep_latest": 3},
        "metrics": {"log_interval": 1, "log_timing": False},
    }

    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="longspan-test-"))
        self.addCleanup(shutil.rmtree, self.directory)
        write_text(self.directory / "text.txt")
        # JSON is YAML.
        (self.directory / "tiny.yaml").write_text(json.dumps(self.sections, indent=1))

    def make_once(self, make):
        """Runs make() in the directory of the first test of a class, and copies the files to those of its other tests."""
        if "_made" not in vars(type(self)):
            make()
            copy = tempfile.mkdtemp(prefix="longspan-test-")
            self.addClassCleanup(shutil.rmtree, copy)
            shutil.copytree(self.directory, copy, dirs_exist_ok=True, symlinks=True)
            type(self)._made = copy
        else:
            shutil.copytree(self._made, self.directory, dirs_exist_ok=True, symlinks=True)

    def start(self, *arguments, ranks=1, environment=None):
        job = Job(self.program, arguments, ranks, self.directory, environment)
        self.addCleanup(job.close)
        return job

    def longspan(self, *arguments, ranks=1, code=0):
        """Runs the program and checks its exit code."""
        return self.results_of([(arguments, ranks, code)])[0]

    def results_of(self, rows, at_once=6):
        """Runs the program for each (arguments, ranks, exit code), several at a time; checks the codes and returns the results."""
        started, results = [], []
        for number, (arguments, ranks, code) in enumerate(rows):
            while len(started) < min(len(rows), number + at_once):
                words, count, expected = rows[len(started)]
                started.append(self.start(*words, ranks=count, environment=self.grace if expected else None))
            result = started[number].wait()
            self.assertEqual(result.code, code, f"longspan {' '.join(map(str, arguments))}\n{result.output}{result.errors}")
            results.append(result)
        return results

    def start_training(self, directory="run", layout=Layout(1, 1), settings=None, environment=None):
        every = {"run.output_dir": directory, **layout.settings(), **(settings or {})}
        return self.start("train", "tiny.yaml", *flat(every), ranks=layout.ranks, environment=environment)

    def train(self, directory="run", layout=Layout(1, 1), settings=None, code=0):
        result = self.start_training(directory, layout, settings, self.grace if code else None).wait()
        self.assertEqual(result.code, code, result.output + result.errors)
        return result

    def run_at(self, directory="run"):
        return Run(self.directory / directory)

    def assert_one_sentence(self, result, *parts):
        """Checks that standard error is one line of the program that contains these parts."""
        self.assertRegex(result.errors, r"\Alongspan: [^\n]*\n\Z")
        for part in parts:
            self.assertIn(part, result.errors)


def main():
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        sys.exit(f"usage: {sys.argv[0]} PROGRAM [unittest's arguments]")
    TestCase.program = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
