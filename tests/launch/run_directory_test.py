#!/usr/bin/env python3
"""Runs whose directory is removed, whose disk is full, or which are complete.

    tests/launch/run_directory_test.py build/launch/longspan
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout, until

LAYOUTS = Layout(1, 1), Layout(2, 2)


class RemovedDirectory(jobs.TestCase):
    # Detected at a logged step or at a save.
    kinds = {"logged": {"metrics.log_interval": 5, "checkpoint.save_interval": 0},
             "saved": {"metrics.log_interval": 1000000, "checkpoint.save_interval": 20},
             "waits": {"metrics.log_interval": 1000000, "checkpoint.save_interval": 20, "checkpoint.async_save": "false"},
             # Saves nearly all the time, so the directory is usually removed during a save.
             "saving": {"metrics.log_interval": 1000000, "checkpoint.save_interval": 1}}

    def start_endless(self, name, layout, settings):
        job = self.start_training(name, layout, {**settings, "training.max_steps": 1000000}, self.grace)
        run = self.run_at(name)
        until(lambda: job.ended() or (run.steps() if settings["checkpoint.save_interval"] else run.path.exists() and
                                      (run.path / "metrics.jsonl").exists() and run.metrics()))
        self.assertFalse(job.ended(), job.output() + job.errors())
        return job, run

    def assert_noticed(self, job, name):
        result = job.wait()
        self.assertEqual(result.code, 3, result.output + result.errors)
        self.assert_one_sentence(result, f'run.output_dir "{name}": removed, moved or replaced while the run was writing to it',
                                 "restore it and run the same command to resume, or start over")

    def test_removed_directory_is_not_recreated(self):
        for kind, settings in self.kinds.items():
            for layout in LAYOUTS:
                with self.subTest(kind=kind, layout=str(layout)):
                    name = f"{kind}-{layout.ranks}"
                    job, run = self.start_endless(name, layout, settings)
                    run.path.rename(self.directory / f"{name}-moved")
                    self.assert_noticed(job, name)
                    self.assertFalse(run.path.exists())
                    moved = self.run_at(f"{name}-moved")
                    for file in "config.yaml", "log.txt", "metrics.jsonl":
                        self.assertTrue((moved.path / file).exists(), file)
                    self.longspan("inspect", moved.path) if settings["checkpoint.save_interval"] else None

    def test_deleted_directory_is_reported(self):
        """The checkpoints go some time before the lock, by which the run notices: a save may fail in between."""
        for layout in LAYOUTS:
            for number in range(4):
                with self.subTest(layout=str(layout), number=number):
                    name = f"deleted-{layout.ranks}-{number}"
                    job, run = self.start_endless(name, layout, self.kinds["saving"])
                    # Errors are ignored, as a save may still add a file.
                    shutil.rmtree(run.path / "checkpoints", ignore_errors=True)
                    time.sleep(0.3)
                    shutil.rmtree(run.path, ignore_errors=True)
                    self.assert_noticed(job, name)

    def test_replacement_directory_is_not_changed(self):
        for layout in LAYOUTS:
            with self.subTest(layout=str(layout)):
                name = f"run-{layout.ranks}"
                other = self.directory / f"other-{layout.ranks}"
                self.train(other.name, settings={"training.max_steps": 4})
                before = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
                job, run = self.start_endless(name, layout, self.kinds["saved"])
                run.path.rename(self.directory / f"{name}-moved")
                other.rename(run.path)
                self.assert_noticed(job, name)
                after = {other / path.relative_to(run.path): path.read_bytes()
                         for path in run.path.rglob("*") if path.is_file()}
                self.assertEqual(after, before)
                shutil.rmtree(run.path)

    def test_restored_directory_resumes(self):
        job, run = self.start_endless("run", Layout(1, 1), self.kinds["saved"])
        moved = self.directory / "moved"
        run.path.rename(moved)
        self.assert_noticed(job, "run")
        moved.rename(run.path)
        last = run.steps()[-1]
        self.assertIn(f"at step {last}", self.train(settings={"training.max_steps": last + 1}).output)


class FullDisk(jobs.TestCase):
    def test_error_names_saved_step_and_command(self):
        if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
            self.skipTest("needs a file system that is too small, which only root can make")
        (self.directory / "small").mkdir()
        script = 'mount -t tmpfs -o size=1m none small && exec "$0" "$@"'
        settings = {"run.output_dir": "small/run", "checkpoint.save_interval": 1, "checkpoint.keep_latest": 100,
                    "training.max_steps": 100000}
        for background in True, False:
            for ranks in 1, 2:
                with self.subTest(background=background, ranks=ranks):
                    settings["checkpoint.async_save"] = background
                    command = [self.program, "train", "tiny.yaml", *jobs.flat({**settings, "parallel.data_parallel_size": ranks})]
                    if ranks > 1:
                        command = [jobs.MPIRUN, ranks, *command]
                    job = jobs.Job("/usr/bin/unshare", ["-m", "sh", "-c", script, *command], 1, self.directory, self.grace)
                    self.addCleanup(job.close)
                    result = job.wait()
                    self.assertEqual(result.code, 1, result.output + result.errors)
                    saved = max(int(step) for step in re.findall(r"Saved small/run/checkpoints/step-(\d+)", result.output))
                    self.assertRegex(
                        result.errors,
                        rf"(?m)^longspan: .*No space left on device.*; free disk space; "
                        rf"run the same command to resume from small/run/checkpoints/step-{saved:09}")
                    self.assertEqual(result.errors.count("longspan: "), 1, result.errors)


class CompletedRun(jobs.TestCase):
    def test_reports_step_and_key_to_set(self):
        self.train()
        before = self.run_at().metrics_bytes()
        for layout in Layout(1, 1), Layout(2, 1):
            past = self.train(layout=layout, settings={"training.max_steps": 4, "training.lr_scheduler.warmup_steps": 0}).output
            self.assertIn("Nothing to train: the run is already at step 8, past training.max_steps = 4. Set training.max_steps to "
                          "more than 8 to continue.", past)
            self.assertNotIn("Finished", past)
            equal = self.train(layout=layout).output
            self.assertIn("Nothing to train: the run is already at step 8, equal to training.max_steps = 8. Set", equal)
        self.assertEqual(self.run_at().metrics_bytes(), before)
        self.assertEqual(self.run_at().steps(), [4, 8])
        # Step 8 replaces step 4 only after a step was trained from it.
        self.train(settings={"checkpoint.keep_latest": 1})
        self.assertEqual(self.run_at().steps(), [4, 8])
        self.assertIn("Finished: 10 steps", self.train(settings={"training.max_steps": 10}).output)


if __name__ == "__main__":
    jobs.main()
