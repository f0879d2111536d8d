"""A tiny run of a family on a layout: once uninterrupted, and once with the faults of a test."""

import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import kills
import tiny_families
from jobs import Job, Run, flat, until


class Place:
    """Creates the directory again. `settings`: of every job in it."""

    def __init__(self, program, directory, family, layout, settings=None):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self.program, self.directory, self.layout, self.settings = program, directory, layout, settings or {}
        self.name = f"{family} on {layout}"
        self.file = tiny_families.write(directory, family)
        self.unbroken, self.broken = Run(directory / "unbroken"), Run(directory / "broken")
        self.start_seconds = 0.0  # until the first step

    def start(self, directory="broken", settings=None, program=None):
        """`program`: a script that executes the program on every rank, if it is not the program itself."""
        every = {"run.output_dir": directory, **self.layout.settings(), **self.settings, **(settings or {})}
        job = Job(program or self.program, ["train", self.file, *flat(every)], self.layout.ranks, self.directory)
        job.program = self.program
        return job

    def train_unbroken(self):
        begin = time.monotonic()
        job = self.start("unbroken", {"checkpoint.save_interval": 0})
        until(lambda: job.ended() or "step 1/" in job.output())
        self.start_seconds = time.monotonic() - begin
        result = job.wait()
        job.close()
        if result.code != 0:
            raise AssertionError(f"the unbroken run ends with {result.code}\n{result.output}{result.errors}")

    def verify(self):
        job = Job(self.program, ["verify", self.broken.path], directory=self.directory)
        result = job.wait()
        job.close()
        return result

    def resume_to_end(self):
        """Resumes the broken run to its end. Returns what is wrong with it, or ""."""
        job = self.start()
        try:
            return kills.go_on(lambda: job, self.broken, self.unbroken, self.verify)
        finally:
            job.close()

    def log(self):
        """Returns the log of the broken run so far."""
        return self.broken.log() if (self.broken.path / "log.txt").exists() else ""

    def forget(self):
        shutil.rmtree(self.broken.path, ignore_errors=True)
