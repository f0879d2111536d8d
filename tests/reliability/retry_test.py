#!/usr/bin/env python3
"""`longspan launch --max-restarts` with ranks killed at any moment: the run equals the uninterrupted one bit for bit.

    tests/reliability/retry_test.py build/launch/longspan [--full] [--shard K/N] [--cases N] [--only NUMBER]

A case kills one rank, mpirun, or all started processes, one to three times: during training, during a save, or while an
attempt starts. In every second case training also diverges on some batches of the text. training.max_rollbacks skips
them, before, between and after the kills.
"""

import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from counted import Counted
from jobs import Job, Layout, Run, flat, until
from poisoned_model import BATCH, SEGMENT, poison, write_poisoned_llama

USUAL, FULL = 3, 300
STEPS = 160
LAYOUTS = (Layout(2, 1), Layout(1, 2), Layout(1, 1, context=2), Layout(2, 2), Layout(1, 1))
TEXTS = ("text.txt", "bad.txt")


def prepare(program, directory):
    jobs.write_text(directory / "text.txt", words=20000)
    write_poisoned_llama(directory / "llama")
    poison(directory / "text.txt", directory / "bad.txt", first=70, count=9)
    job = Job(program, ["import", "llama", "--output-dir", "imported"], 1, directory)
    result = job.wait()
    job.close()
    if result.code != 0:
        raise AssertionError(f"import ends with {result.code}: {result.errors}")


def words(directory, layout, text):
    settings = {"run.output_dir": directory, "run.num_threads": 1, "training.init_from.path": "imported", "data.train": text,
                "data.global_batch_size": BATCH, "data.seq_length": SEGMENT, "training.max_steps": STEPS,
                "training.max_consecutive_skips": 3,
                "training.max_rollbacks": 5, "training.learning_rate": 1e-3, "checkpoint.save_interval": 10,
                "metrics.log_interval": 1, "metrics.log_timing": False, "precision.compute_dtype": "float64", **layout.settings()}
    return ["train", "imported/config.yaml", *flat(settings)]


class Case:
    def __init__(self, program, directory, number):
        source = random.Random(number)
        self.program, self.directory, self.source = program, directory, source
        self.layout, self.text = source.choice(LAYOUTS), TEXTS[number % 2]
        self.kills = source.randrange(1, 4)
        self.run = Run(directory / f"case-{number}")

    def start(self, name, *run):
        arguments = [*run, *words(name, self.layout, self.text)]
        return Job(self.program, arguments, 1 if run else self.layout.ranks, self.directory)

    def unbroken(self):
        """Returns the run without kills, made once for each layout and text."""
        name = f"whole-{LAYOUTS.index(self.layout)}-{self.text}"
        reference = Run(self.directory / name)
        if not reference.path.exists():
            job = self.start(name)
            result = job.wait()
            job.close()
            if result.code != 0:
                raise AssertionError(f"the unbroken run ends with {result.code}\n{result.output}{result.errors}")
        return reference

    def wait_until_logged(self, job, step):
        return until(lambda: job.ended() or self.run.path.exists() and f'{{"step": {step},' in self.metrics_text(), 120)

    def metrics_text(self):
        path = self.run.path / "metrics.jsonl"
        return path.read_text() if path.exists() else ""

    def kill(self, job):
        """Kills one rank, mpirun, or all processes except `longspan launch` itself."""
        which = self.source.choice(["rank", "rank", "mpirun", "all"])
        if which == "rank" and self.layout.ranks > 1:
            return job.signal_rank(signal.SIGKILL, self.source.randrange(self.layout.ranks))
        if which == "mpirun" and self.layout.ranks > 1:
            return job.signal(signal.SIGKILL, "mpirun")
        for process, _ in jobs.processes_with(job.mark):
            if process != job._process.pid:
                try:
                    jobs.os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        return None

    def judge(self):
        """Returns what is wrong, "" if nothing is, or None if the run ended before a kill."""
        reference = self.unbroken()
        job = self.start(self.run.path.name, "launch", "--max-restarts", 20, "--restart-delay", 0, "-n", self.layout.ranks, "--")
        try:
            steps = sorted(self.source.sample(range(1, STEPS - 40), self.kills))
            for step in steps:
                self.wait_until_logged(job, step)
                if self.source.random() < 0.3:
                    # Also kills the next attempt while it starts.
                    self.kill(job)
                    until(lambda: job.ended() or "starting attempt" in job.errors(), 120)
                time.sleep(self.source.random() * 0.5)
                self.kill(job)
            result = job.wait()
        finally:
            job.close()
        if result.code != 0:
            return f"ends with {result.code}: {result.errors[-600:]}"
        attempts = result.errors.count("starting attempt")
        if self.run.metrics_bytes() != reference.metrics_bytes():
            return f"other metrics than those of the unbroken run, after {attempts} further attempts"
        if self.run.state(STEPS) != reference.state(STEPS):
            return f"another state than that of the unbroken run, after {attempts} further attempts"
        return "" if attempts > 0 else None


def main():
    counted = Counted(__doc__)
    kind = counted.kind("killed and started again by --max-restarts, bit for bit", USUAL, FULL)
    with tempfile.TemporaryDirectory(prefix="longspan-test-") as directory:
        prepare(counted.program, Path(directory))
        for number in kind:
            case = Case(counted.program, Path(directory), number)
            try:
                why = case.judge()
            except AssertionError as error:
                why = str(error)
            if why is None:
                kind.leaves_out(number, "the run ended before it was killed")
            elif why:
                kind.fails(number, f"{case.layout}, {case.text}: {why}")
            else:
                kind.passed()
    counted.end()


if __name__ == "__main__":
    main()
