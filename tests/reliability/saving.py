"""Talks with tests/checkpoints/save_faults.cpp, which saves steps and is told which call fails; for the tests beside this."""

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

MOST_SECONDS = 120  # that an answer may take


def folder_for_tests():
    """In memory where there is room for files: a disk would be waited for in vain, what is tested is which calls there are."""
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="longspan-test-", dir=shared if os.access(shared, os.W_OK) else None))


class Driver:
    """build/tests/checkpoint_save_faults beside build/launch/longspan: a line for each question, a line for each answer."""

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
        """The words of the answer, of which the first is "held" or "failed"."""
        if self._process is None:
            self._start()
        try:
            self._process.stdin.write(f"{number} {question}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has no answer either
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
            with contextlib.suppress(BrokenPipeError):  # of a process that has ended
                self._process.stdin.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._process.stdout.close()
        self._process = None


class Folders:
    """Temporary folders, gone in the end."""

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
