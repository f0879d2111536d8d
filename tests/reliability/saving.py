"""Drives tests/checkpoints/save_faults.cpp, which saves steps with a selected call failing."""

import contextlib
import itertools
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs

MOST_SECONDS = 120  # per answer


def folder_for_tests():
    """Creates a directory, in memory if possible: tests check the calls, not the disk, which would be slower."""
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="longspan-test-", dir=shared if os.access(shared, os.W_OK) else None))


class Driver:
    """build/tests/checkpoint_save_faults of the same build: one line per question, one line per answer."""

    def __init__(self, program, words, ranks=1):
        path = Path(program).parents[1] / "tests" / "checkpoint_save_faults"
        launcher = [str(jobs.MPIRUN), str(ranks)] if ranks > 1 else []
        self._command = [*launcher, str(path), *map(str, words)]
        self._process = None

    def _start(self):
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         start_new_session=True,
                                         env={**os.environ, "LONGSPAN_TIME_LIMIT": "36000", "OMP_NUM_THREADS": "1"})

    def ask(self, number, question):
        """Returns the words of the answer. The first one is "held" or "failed"."""
        if self._process is None:
            self._start()
        try:
            self._process.stdin.write(f"{number} {question}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # handled below: it gives no answer
        ready, _, _ = select.select([self._process.stdout], [], [], MOST_SECONDS)
        line = self._process.stdout.readline().decode() if ready else ""
        first, *words = line.split() or [""]
        if first == str(number):
            return words
        if not ready:
            how = f"hung for {MOST_SECONDS} s"
        else:
            how = f"answers {line!r}" if line else f"ended with {self._process.wait()}"
        self.close()
        return ["failed", f"the process that saves {how}"]

    def close(self):
        if self._process is not None:
            with contextlib.suppress(BrokenPipeError):  # the process has ended
                self._process.stdin.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._process.stdout.close()
        self._process = None


class Folders:
    """Temporary directories, removed at the end."""

    def __init__(self):
        self.path = folder_for_tests()
        self._numbers = itertools.count()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def new(self):
        path = self.path / str(next(self._numbers))
        path.mkdir()
        return path
