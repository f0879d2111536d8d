"""Trainings whose calls on files are watched or fail, for the tests of power losses and of faults."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs

WAYS = {"waiting": "while training waits", "beside": "during training"}  # of saving


def on(ranks):
    return "on one process" if ranks == 1 else f"on {ranks} ranks"


class Trained(jobs.TestCase):
    """`longspan train` in a directory of its own: three saves in six steps. `with` makes it and removes it."""

    def __init__(self, counted, ranks, settings=None):
        super().__init__()
        jobs.TestCase.program = counted.program
        self._library = Path(counted.program).parents[1] / "tests" / "libfaulty_files.so"
        self.layout = jobs.Layout(ranks, 1)
        self.settings = {"training.max_steps": 6, "checkpoint.save_interval": 2, "checkpoint.keep_latest": 2, **(settings or {})}

    def runTest(self):
        pass  # unittest asks for it

    def __enter__(self):
        self.setUp()
        return self

    def __exit__(self, *_):
        self.doCleanups()

    def train_watched(self, directory, variables):
        """The result of a training with tests/support/faulty_files preloaded, and these variables of its own."""
        named = {"LD_PRELOAD": self._library, **{f"LONGSPAN_FAULTS_{name}": value for name, value in variables.items()}}
        os.environ.update({name: str(value) for name, value in named.items()})
        try:
            job = self.start_training(directory, self.layout, self.settings)
            result = job.wait()
            job.close()
        finally:
            for name in named:
                del os.environ[name]
        return result

    def go_on(self, directory, whole):
        """Goes on to the end, which must be that of the whole run; the result."""
        result = self.train(directory, self.layout, self.settings)
        self.assertEqual(self.run_at(directory).state(6), self.run_at(whole).state(6))
        self.assertEqual(self.run_at(directory).metrics_bytes(), self.run_at(whole).metrics_bytes())
        return result
