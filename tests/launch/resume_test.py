#!/usr/bin/env python3
"""Runs that are killed or stopped anywhere go on as if nothing had been: bit for bit on the same layout.

    tests/launch/resume_test.py build/launch/longspan
"""

import os
import random
import re
import shutil
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
import kills
from jobs import Layout, until

STEPS = 60
ALL = "LONGSPAN_ALL" in os.environ  # launch/test --all
KILLS = 5  # a layout; tests/reliability/kills_test.py has as many as one likes


class Resume(jobs.TestCase):
    settings = {"training.max_steps": STEPS, "checkpoint.save_interval": 3, "data.validation": "held-out.txt",
                "training.validation.max_batches": 2, "training.validation.interval": 7}

    def setUp(self):
        super().setUp()
        jobs.write_text(self.directory / "held-out.txt", words=200, seed=2)

    def unbroken(self, layout, settings=None):
        settings = {**self.settings, "checkpoint.save_interval": 0, **(settings or {})}
        self.train("unbroken", layout, settings)
        run = self.run_at("unbroken")
        self.assertEqual([line["step"] for line in run.metrics()], list(range(1, settings["training.max_steps"] + 1)))
        return run

    def assert_same(self, run, unbroken):
        self.assertEqual(kills.difference(run, unbroken), "")
        self.longspan("verify", run.path)

    def kill(self, job, run, moment):
        """At a random moment; False when the job was quicker."""
        which = moment.choice(["all", "one", "mpirun"])
        when = moment.choice(["starting", "training", "saving", "saving"])
        return kills.kill(job, run, when, which, moment)

    def kill_and_resume(self, layout, seed):
        unbroken = self.unbroken(layout)
        moment = random.Random(seed)
        run = self.run_at("broken")
        count = 0
        while count < KILLS:
            if self.kill(self.start_training("broken", layout, self.settings), run, moment):
                count += 1
            else:
                self.assert_same(run, unbroken)
                shutil.rmtree(run.path)
        self.train("broken", layout, self.settings)
        self.assert_same(run, unbroken)

    def test_killed_on_one_process(self):
        self.kill_and_resume(Layout(1, 1), seed=1)

    def test_killed_on_data_2(self):
        self.kill_and_resume(Layout(2, 1), seed=2)

    def test_killed_on_tensor_2(self):
        self.kill_and_resume(Layout(1, 2), seed=3)

    def test_killed_on_data_2_x_tensor_2(self):
        self.kill_and_resume(Layout(2, 2), seed=4)

    def test_killed_on_context_2_x_tensor_2_with_sequence_parallelism(self):
        self.kill_and_resume(Layout(1, 2, context=2, sequence=True), seed=5)

    def stop_and_resume(self, layout, number):
        """Returns the exit code of the stopped job."""
        # A busy machine may send the signal late: the job has steps until it comes, whenever that is.
        settings = {**self.settings, "checkpoint.save_interval": 0, "training.max_steps": 1000000,
                    "training.lr_scheduler.total_steps": STEPS}
        job = self.start_training("stopped", layout, settings)
        until(lambda: job.ended() or "step 5/" in job.output())
        job.signal(number)
        stopped = job.wait()
        run = self.run_at("stopped")
        if stopped.code == 75:
            self.assertEqual(len(run.steps()), 1)
            self.assertGreaterEqual(run.steps()[0], 5)
            self.assertEqual(len(run.metrics()), run.steps()[0])
            self.assertIn(f"Stopped after step {run.steps()[0]} as requested", stopped.output)
        settings["training.max_steps"] = max(run.steps(), default=0) + STEPS
        resumed = self.train("stopped", layout, settings)
        if stopped.code == 75:
            self.assertIn("Resumed from", resumed.output)
        self.assert_same(run, self.unbroken(layout, settings))
        return stopped.code

    def test_save_and_stop_on_one_process(self):
        for number in signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGINT:
            if signal.getsignal(number) == signal.SIG_IGN:  # then its jobs would, too
                self.addCleanup(signal.signal, number, signal.signal(number, signal.SIG_DFL))
            with self.subTest(signal=number):
                self.assertEqual(self.stop_and_resume(Layout(1, 1), number), 75)
                shutil.rmtree(self.directory / "stopped")
                shutil.rmtree(self.directory / "unbroken")

    def test_stop_saves_without_another_step(self):
        # Steps of seconds, and a small model, which is saved in less.
        jobs.write_text(self.directory / "text.txt", words=60000)
        slow = {"data.seq_length": 2048, "data.global_batch_size": 4, "model.mem_len": 0, "model.num_hidden_layers": 4,
                "checkpoint.save_interval": 0,
                "training.max_steps": 1000, "data.validation": ""}
        job = self.start_training("slow", settings={**slow, "metrics.log_timing": True})
        until(lambda: job.ended() or "step 2/" in job.output())
        job.signal(signal.SIGTERM)
        result = job.wait()
        self.assertEqual(result.code, 75, result.output + result.errors)
        step = max(line["step_seconds"] for line in self.run_at("slow").metrics())
        saving = float(re.search(r"Saved .* in ([\d.]+) s \(training blocked", result.output).group(1))
        self.assertLess(saving, step / 2, result.output)
        self.assertNotIn("trial", result.output)
        # It answers at once, on standard output without a terminal, and in the log.
        answer = "SIGTERM: saving and stopping after this step"
        self.assertEqual(result.output.count(answer), 1, result.output)
        self.assertEqual(self.run_at("slow").log().count(f" info {answer}"), 1)
        # The run's end has a trial, whose time is apart from the save.
        ended = self.train("ended", settings={"training.max_steps": 2}).output
        self.assertRegex(ended, r"step 2: trial step with the saved weights took [\d.]+ s: loss [\d.]+, grad norm [\d.]+\nSaved ")

    def test_stop_keeps_older_checkpoints_until_the_next_run_has_made_a_step(self):
        often = {**self.settings, "checkpoint.keep_latest": 1, "checkpoint.save_interval": 5, "training.max_steps": 1000000,
                 "training.lr_scheduler.total_steps": STEPS}
        job = self.start_training("run", settings=often)
        until(lambda: job.ended() or self.run_at().steps())
        job.signal(signal.SIGUSR1)
        result = job.wait()
        self.assertEqual(result.code, 75, result.output + result.errors)
        self.assertEqual(result.output.count("SIGUSR1: saving and stopping after this step"), 1)
        before = self.run_at().steps()
        self.assertIn(f"Stopped after step {before[-1]} as requested", result.output)
        self.assertLessEqual(len(before), 2)
        self.train("run", settings={**often, "training.max_steps": before[-1] + 1})
        self.assertEqual(self.run_at().steps(), [before[-1] + 1])

    def test_save_and_stop_under_mpirun(self):
        self.assertEqual(self.stop_and_resume(Layout(2, 2), signal.SIGUSR1), 75)

    def test_termination_under_mpirun_corrupts_nothing(self):
        # Open MPI gives the ranks two seconds: that they save in time is not promised.
        self.assertNotEqual(self.stop_and_resume(Layout(2, 1), signal.SIGTERM), 0)


class ExactResume(jobs.TestCase):
    """Whatever a run keeps between its steps is in its checkpoint."""

    variants = {
        "bfloat16": {"precision.compute_dtype": "bfloat16"},
        # A scale that falls before the first checkpoint and grows after it.
        "float16": {"precision.compute_dtype": "float16", "precision.loss_scale.init_scale": 2**32, "precision.loss_scale.hysteresis": 1,
                    "precision.loss_scale.growth_interval": 2, "training.max_consecutive_skips": 1},
        "float64": {"precision.compute_dtype": "float64"},
        "zero 1": {"parallel.zero_stage": 1},
        "zero 2": {"parallel.zero_stage": 2, "training.gradient_accumulation_steps": 2},
        "zero 1 of bfloat16": {"parallel.zero_stage": 1, "precision.compute_dtype": "bfloat16", "precision.grad_reduce_dtype": "bfloat16"},
        "zero 2 of float16": {"parallel.zero_stage": 2, "precision.compute_dtype": "float16"},
        "sgd with momentum": {"training.optimizer.type": "sgd", "training.optimizer.momentum": 0.9,
                              "training.optimizer.nesterov": True},
        "adam": {"training.optimizer.type": "adam", "training.optimizer.weight_decay": 0.1},
        "adafactor": {"training.optimizer.type": "adafactor", "training.optimizer.beta1": 0.9, "parallel.zero_stage": 1},
        "muon": {"training.optimizer.type": "muon", "parallel.zero_stage": 2},
        "schedule free of bfloat16": {"training.optimizer.type": "schedule_free_adamw", "training.lr_scheduler.type": "constant",
                                      "precision.compute_dtype": "bfloat16"},
        "accumulation": {"training.gradient_accumulation_steps": 4},
        "memory that is not full": {"model.mem_len": 100, "model.same_length": True},
        "no memory": {"model.mem_len": 0},
        "several epochs": {"data.train": "short.txt"},
        "characters": {"data.tokenizer.type": "char"},
        "linear": {"training.lr_scheduler.type": "linear", "training.lr_scheduler.warmup_steps": 5},
    }

    def test_of_every_kind_of_run(self):
        jobs.write_text(self.directory / "short.txt", words=60)  # an epoch has about 4 steps
        for number, (name, settings) in enumerate(self.variants.items()):
            for layout, steps in (Layout(1, 1), (3, 6) if ALL else (3,)), (Layout(2, 1), (6,)):
                with self.subTest(variant=name, layout=str(layout)):
                    directory = f"{number}-{layout.ranks}"
                    # Once before and once after the first epoch's end.
                    self.train(directory, layout, {**settings, "checkpoint.save_interval": 3})
                    unbroken = self.run_at(directory)
                    for step in steps:
                        again = f"{directory}-from-{step}"
                        self.train(again, layout, {**settings, "checkpoint.resume_from": unbroken.checkpoint(step)})
                        resumed = self.run_at(again)
                        lines = unbroken.metrics_bytes().splitlines()[step:]
                        self.assertEqual(resumed.metrics_bytes().splitlines(), lines)
                        self.assertEqual(resumed.state(8), unbroken.state(8))


class ElasticResume(jobs.TestCase):
    """Saved on any layout, resumed on any other: the losses go on as those of one process, in float64 to 1e-9."""

    layouts = [Layout(1, 1), Layout(2, 1), Layout(1, 2), Layout(2, 2), Layout(4, 1), Layout(1, 4)]
    settings = {"precision.compute_dtype": "float64", "training.max_steps": 8, "checkpoint.save_interval": 4}

    def assert_losses(self, found, wanted):
        self.assertEqual([line["step"] for line in found], [line["step"] for line in wanted])
        for line, reference in zip(found, wanted):
            for key in "loss", "grad_norm":
                self.assertLessEqual(abs(line[key] - reference[key]), 1e-9 * abs(reference[key]),
                                     f"{key} of step {line['step']}: {line[key]}, expected {reference[key]}")

    def resume(self, path, layout, settings, wanted):
        everything = {**self.settings, "checkpoint.resume_from": path, "checkpoint.save_interval": 0, **settings}
        self.train("resumed", layout, everything)
        run = self.run_at("resumed")
        self.assert_losses(run.metrics(), wanted[4:])
        shutil.rmtree(run.path)

    def test_pairs_of_layouts(self):
        wanted = None
        for number, saver in enumerate(self.layouts):
            self.train(f"saved-{number}", saver, self.settings)
            run = self.run_at(f"saved-{number}")
            wanted = wanted or run.metrics()
            self.assert_losses(run.metrics(), wanted)
            # Each layout saves for two others and goes on from two, or with --all for and from every one.
            others = range(1, len(self.layouts)) if ALL else (1, 2)
            for other in others:
                layout = self.layouts[(number + other) % len(self.layouts)]
                with self.subTest(saved=str(saver), resumed=str(layout)):
                    self.resume(run.checkpoint(4), layout, {}, wanted)

    def test_whatever_is_shared_out(self):
        wanted = None
        kinds = [(Layout(1, 1), 0), (Layout(4, 1), 2), (Layout(2, 2), 1), (Layout(2, 1, context=2), 2),
                 (Layout(1, 2, context=2, sequence=True), 1)]
        for number, (saver, zero) in enumerate(kinds):
            self.train(f"saved-{number}", saver, {**self.settings, "parallel.zero_stage": zero})
            run = self.run_at(f"saved-{number}")
            wanted = wanted or run.metrics()
            self.assert_losses(run.metrics(), wanted)
            for place in range(1, len(kinds)) if ALL else (1, 2):
                layout, other = kinds[(number + place) % len(kinds)]
                with self.subTest(saved=f"{saver}, zero {zero}", resumed=f"{layout}, zero {other}"):
                    self.resume(run.checkpoint(4), layout, {"parallel.zero_stage": other}, wanted)

    def test_ranks_that_share_time(self):
        # The memory is divided otherwise on each.
        sharing = [Layout(1, 1, context=2), Layout(1, 2, context=2, sequence=True), Layout(1, 4, sequence=True)]
        self.train("one", Layout(1, 1), self.settings)
        one = self.run_at("one")
        for number, saver in enumerate(sharing):
            self.resume(one.checkpoint(4), saver, {}, one.metrics())
            self.train(f"saved-{number}", saver, self.settings)
            run = self.run_at(f"saved-{number}")
            self.assert_losses(run.metrics(), one.metrics())
            for layout in Layout(1, 1), Layout(2, 1, context=2), sharing[number - 1]:
                with self.subTest(saved=str(saver), resumed=str(layout)):
                    self.resume(run.checkpoint(4), layout, {}, one.metrics())

    def test_other_parts_of_the_batch(self):
        self.train("saved", Layout(1, 2), {**self.settings, "training.gradient_accumulation_steps": 2})
        run = self.run_at("saved")
        for layout, parts in (Layout(1, 1), 1), (Layout(2, 1), 4), (Layout(2, 2), 2):
            with self.subTest(layout=str(layout), parts=parts):
                self.resume(run.checkpoint(4), layout, {"training.gradient_accumulation_steps": parts}, run.metrics())


if __name__ == "__main__":
    jobs.main()
