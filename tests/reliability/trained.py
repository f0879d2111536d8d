"""Training runs whose file calls are logged or fail, for the tests of power losses and of faults."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs

WAYS = {"waiting": "while training waits", "background": "during training"}  # ways of saving


def on(ranks):
    return "on one process" if ranks == 1 else f"on {ranks} ranks"


class Trained(jobs.TestCase):
    """`longspan train` in a temporary directory of the `with` statement: three saves in six steps."""

    def __init__(self, counted, ranks, settings=None):
        super().__init__()
        jobs.TestCase.program = counted.program
        self._library = Path(counted.program).parents[1] / "tests" / "libfaulty_files.so"
        self.layout = jobs.Layout(ranks, 1)
        self.settings = {"training.max_steps": 6, "checkpoint.save_interval": 2, "checkpoint.keep_latest": 2, **(settings or {})}

    def runTest(self):
        pass  # unittest requires it

    def __enter__(self):
        self.setUp()
        return self

    def __exit__(self, *_):
        self.doCleanups()

    def train_watched(self, directory, variables):
        """Returns the result of a training with tests/support/faulty_files preloaded, and its `variables`."""
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

    def resume_to_end(self, directory, whole):
        """Resumes to the end, which must equal that of the run `whole`. Returns the result."""
        result = self.train(directory, self.layout, self.settings)
        self.assertEqual(self.run_at(directory).state(6), self.run_at(whole).state(6))
        self.assertEqual(self.run_at(directory).metrics_bytes(), self.run_at(whole).metrics_bytes())
        return result
