#!/usr/bin/env python3
"""Killed or stopped runs resume exactly on the same layout, and to rounding on other layouts.

    tests/launch/resume_test.py build/launch/longspan
"""

import json
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
# A decoder whose recurrent states continue over segments. Four context ranks pass on those of the 2 heads, and exchange
# positions for the 8 heads of mamba2.
STATEFUL = {"family": "decoder", "stateful": True, "num_hidden_layers": 4, "hidden_size": 16, "num_attention_heads": 2, "dropout": 0.1,
            "position_embedding_type": "rope",
            "attention": {"layer_types": ["rwkv7", "mamba2", "gated_delta_net", "retention"],
                          "mamba2": {"head_dim": 4, "state_size": 3, "n_groups": 2}}}
KILLS = 5 if ALL else 3  # per layout; tests/reliability/kills_test.py accepts any number


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
        """Kills the job at a random moment; returns False if it had already ended."""
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

    def test_kill_resumes_exactly_on_one_process(self):
        self.kill_and_resume(Layout(1, 1), seed=1)

    def test_kill_resumes_exactly_on_data_2(self):
        self.kill_and_resume(Layout(2, 1), seed=2)

    def test_kill_resumes_exactly_on_tensor_2(self):
        self.kill_and_resume(Layout(1, 2), seed=3)

    def test_kill_resumes_exactly_on_data_2_x_tensor_2(self):
        self.kill_and_resume(Layout(2, 2), seed=4)

    def test_kill_resumes_exactly_with_sequence_parallelism(self):
        self.kill_and_resume(Layout(1, 2, context=2, sequence=True), seed=5)

    def stop_and_resume(self, layout, number):
        """Returns the exit code of the stopped job."""
        # A busy machine may delay the signal, so the number of steps has no effective limit.
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

    def test_stop_signals_save_on_one_process(self):
        for number in signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGINT:
            if signal.getsignal(number) == signal.SIG_IGN:  # jobs inherit this
                self.addCleanup(signal.signal, number, signal.signal(number, signal.SIG_DFL))
            with self.subTest(signal=number):
                self.assertEqual(self.stop_and_resume(Layout(1, 1), number), 75)
                shutil.rmtree(self.directory / "stopped")
                shutil.rmtree(self.directory / "unbroken")

    def test_stop_saves_without_another_step(self):
        # A step takes seconds; saving the small model takes less.
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
        saving = float(re.search(r"Saved .* in ([\d.]+) s\n", result.output).group(1))
        self.assertLess(saving, step / 2, result.output)
        self.assertNotIn("tested the weights", result.output)
        # Standard output and the log acknowledge the signal at once.
        answer = "SIGTERM: saving and stopping after this step"
        self.assertEqual(result.output.count(answer), 1, result.output)
        self.assertEqual(self.run_at("slow").log().count(f" info {answer}"), 1)
        # The end of a run has an extra step, which is timed apart from the save.
        ended = self.train("ended", settings={"training.max_steps": 2}).output
        self.assertRegex(ended, r"step 2: tested the weights before saving them: loss [\d.]+, grad norm [\d.]+ \([\d.]+ s\)\nSaved ")

    def test_stop_keeps_older_checkpoints_until_next_step(self):
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

    def test_stop_signal_saves_under_mpirun(self):
        self.assertEqual(self.stop_and_resume(Layout(2, 2), signal.SIGUSR1), 75)

    def test_termination_under_mpirun_corrupts_nothing(self):
        # Open MPI kills the ranks after two seconds, so the save may be incomplete.
        self.assertNotEqual(self.stop_and_resume(Layout(2, 1), signal.SIGTERM), 0)


class ExactResume(jobs.TestCase):
    """A checkpoint contains all state that a run keeps between steps."""

    variants = {
        "bfloat16": {"precision.compute_dtype": "bfloat16"},
        # The loss scale falls before the first checkpoint and grows after it.
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
        "chunks of a sequence": {"memory.bptt_chunk_length": 3},
        "memory that is not full": {"model.mem_len": 100, "model.same_length": True},
        "no memory": {"model.mem_len": 0},
        "several epochs": {"data.train": "short.txt"},
        "characters": {"data.tokenizer.type": "char"},
        "linear": {"training.lr_scheduler.type": "linear", "training.lr_scheduler.warmup_steps": 5},
    }

    def test_recurrent_states_resume_exactly(self):
        (self.directory / "tiny.yaml").write_text(json.dumps({**self.sections, "model": STATEFUL}))
        layout = Layout(1, 2, context=2, sequence=True)
        variants = {"chunks": {"memory.bptt_chunk_length": 3, "training.gradient_accumulation_steps": 2},
                    "bfloat16": {"precision.compute_dtype": "bfloat16"}}
        for name, settings in variants.items():
            with self.subTest(name):
                self.train(name, layout, settings)
                self.train("resumed", layout, {**settings, "checkpoint.resume_from": self.run_at(name).checkpoint(4)})
                self.assertEqual(self.run_at("resumed").state(8), self.run_at(name).state(8))
                shutil.rmtree(self.directory / "resumed")

    def test_each_variant_resumes_exactly(self):
        jobs.write_text(self.directory / "short.txt", words=60)  # an epoch has about 4 steps
        for number, (name, settings) in enumerate(self.variants.items()):
            one, two = (Layout(1, 1), (3, 6) if ALL else (3,)), (Layout(2, 1), (6,))
            # By default each variant has one layout: ZeRO needs two ranks, the others alternate.
            cases = (one, two) if ALL else (two,) if "parallel.zero_stage" in settings else ((one, two)[number % 2],)
            for layout, steps in cases:
                with self.subTest(variant=name, layout=str(layout)):
                    directory = f"{number}-{layout.ranks}"
                    # Checkpoints before and after the end of the first epoch.
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
    """Runs saved on any layout resume on any other with the losses of one process, in float64 to 1e-9."""

    layouts = [Layout(1, 1), Layout(2, 1), Layout(1, 2), Layout(2, 2), Layout(4, 1), Layout(1, 4)]
    settings = {"precision.compute_dtype": "float64", "training.max_steps": 8, "checkpoint.save_interval": 4}

    def assert_losses(self, found, expected):
        self.assertEqual([line["step"] for line in found], [line["step"] for line in expected])
        for line, reference in zip(found, expected):
            for key in "loss", "grad_norm":
                self.assertLessEqual(abs(line[key] - reference[key]), 1e-9 * abs(reference[key]),
                                     f"{key} of step {line['step']}: {line[key]}, expected {reference[key]}")

    def resume(self, path, layout, settings, expected):
        everything = {**self.settings, "checkpoint.resume_from": path, "checkpoint.save_interval": 0, **settings}
        self.train("resumed", layout, everything)
        run = self.run_at("resumed")
        self.assert_losses(run.metrics(), expected[4:])
        shutil.rmtree(run.path)

    def test_resumes_across_layouts(self):
        expected = None
        for number, saver in enumerate(self.layouts):
            self.train(f"saved-{number}", saver, self.settings)
            run = self.run_at(f"saved-{number}")
            expected = expected or run.metrics()
            self.assert_losses(run.metrics(), expected)
            # Each layout is resumed on two others, or on all others with --all.
            others = range(1, len(self.layouts)) if ALL else (1, 2)
            for other in others:
                layout = self.layouts[(number + other) % len(self.layouts)]
                with self.subTest(saved=str(saver), resumed=str(layout)):
                    self.resume(run.checkpoint(4), layout, {}, expected)

    def test_resumes_across_shardings(self):
        expected = None
        kinds = [(Layout(1, 1), 0), (Layout(4, 1), 2), (Layout(2, 2), 1), (Layout(2, 1, context=2), 2),
                 (Layout(1, 2, context=2, sequence=True), 1)]
        for number, (saver, zero) in enumerate(kinds):
            self.train(f"saved-{number}", saver, {**self.settings, "parallel.zero_stage": zero})
            run = self.run_at(f"saved-{number}")
            expected = expected or run.metrics()
            self.assert_losses(run.metrics(), expected)
            for offset in range(1, len(kinds)) if ALL else (1, 2):
                layout, other = kinds[(number + offset) % len(kinds)]
                with self.subTest(saved=f"{saver}, zero {zero}", resumed=f"{layout}, zero {other}"):
                    self.resume(run.checkpoint(4), layout, {"parallel.zero_stage": other}, expected)

    def test_resumes_across_sequence_shardings(self):
        # Each layout shards the Transformer-XL memory differently.
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

    def test_resumes_recurrent_states_across_layouts(self):
        (self.directory / "tiny.yaml").write_text(json.dumps({**self.sections, "model": STATEFUL}))
        layouts = [Layout(1, 1), Layout(1, 2, context=2, sequence=True), Layout(2, 2), Layout(1, 1, context=4)]
        expected = None
        for number, saver in enumerate(layouts):
            self.train(f"saved-{number}", saver, self.settings)
            run = self.run_at(f"saved-{number}")
            expected = expected or run.metrics()
            self.assert_losses(run.metrics(), expected)
            with self.subTest(saved=str(saver), resumed=str(layouts[number - 1])):
                self.resume(run.checkpoint(4), layouts[number - 1], {}, expected)
        saved = self.run_at("saved-1")
        self.assertIn("recurrent_state/layers/1/attention/query_convolution", saved.state(8)["tensors"])
        self.assertIn("valid", self.longspan("verify", saved.path).output)
        # Losses do not depend on the length of a segment, since the states continue.
        losses = [json.loads(self.longspan("evaluate", saved.path, "--data", "text.txt", "--json", "--seq-length", length).output)["loss"]
                for length in ("5", "64")]
        self.assertAlmostEqual(losses[0], losses[1], delta=1e-12)
        # A window starts from zero. This one holds the whole text.
        jobs.write_text(self.directory / "short.txt", words=6)
        ways = ("--sliding-window", "64"), ("--seq-length", "5")
        losses = [json.loads(self.longspan("evaluate", saved.path, "--data", "short.txt", "--json", *way).output)["loss"] for way in ways]
        self.assertAlmostEqual(losses[0], losses[1], delta=1e-12)
        prompt = (self.directory / "text.txt").read_text()[:40]
        text = [self.longspan("generate", saved.path, "--prompt", prompt, "--max-new-tokens", "20", "--temperature", "0",
                              "--seq-length", length).output for length in ("7", "64")]
        self.assertEqual(text[0], text[1])
        # A run initialized from a checkpoint starts with states of zero.
        for name, stateful in ("initialized", True), ("stateless", False):
            self.train(name, Layout(1, 1), {**self.settings, "model.stateful": stateful, "training.init_from.path": str(saved.path)})
        first, second = ([self.run_at(name).metrics()[step]["loss"] for name in ("initialized", "stateless")] for step in (0, 1))
        self.assertAlmostEqual(first[0], first[1], delta=1e-12)
        self.assertNotAlmostEqual(second[0], second[1], delta=1e-6)
        # Without the states, losses differ.
        self.train("zero", Layout(1, 1), {**self.settings, "model.stateful": False})
        self.assertNotAlmostEqual(self.run_at("zero").metrics()[1]["loss"], expected[1]["loss"], delta=1e-6)

    def test_resumes_with_other_gradient_accumulation(self):
        self.train("saved", Layout(1, 2), {**self.settings, "training.gradient_accumulation_steps": 2})
        run = self.run_at("saved")
        for layout, parts in (Layout(1, 1), 1), (Layout(2, 1), 4), (Layout(2, 2), 2):
            with self.subTest(layout=str(layout), parts=parts):
                self.resume(run.checkpoint(4), layout, {"training.gradient_accumulation_steps": parts}, run.metrics())

    def test_resumes_with_other_bptt_chunk_length(self):
        self.train("saved", Layout(1, 1), {**self.settings, "memory.bptt_chunk_length": 3})
        run = self.run_at("saved")
        for layout, length in (Layout(1, 1), "none"), (Layout(2, 1), 4), (Layout(1, 1, context=2), 5):
            with self.subTest(layout=str(layout), length=length):
                self.resume(run.checkpoint(4), layout, {"memory.bptt_chunk_length": length}, run.metrics())


if __name__ == "__main__":
    jobs.main()
