#!/usr/bin/env python3
"""Divergence: weights with a non-finite loss are not saved, and earlier checkpoints remain.

    tests/launch/divergence_test.py build/launch/longspan
"""

import json
import random
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import DIVERGING, Layout, until

# A valid run, which WORSE resumes with a learning rate that makes it diverge.
GOOD = {"checkpoint.save_interval": 1, "checkpoint.keep_latest": 2, "training.max_steps": 6, "training.lr_scheduler.type": "constant",
        "training.lr_scheduler.warmup_steps": 0}
WORSE = {**GOOD, "training.max_steps": 12, "training.learning_rate": 1e30, "training.max_grad_norm": 0,
         "training.max_consecutive_skips": 100}


class Divergence(jobs.TestCase):
    def test_run_ends_after_max_consecutive_skips(self):
        for number, layout in enumerate([Layout(1, 1), Layout(2, 2)]):
            with self.subTest(layout=str(layout)):
                result = self.train(f"run-{number}", layout, DIVERGING, code=4)
                run = self.run_at(f"run-{number}")
                last = run.metrics()[-1]["step"] + 1
                self.assert_one_sentence(result, "training diverged: 3 consecutive steps ", f"the last is step {last} (",
                                         f"batch at token {8 * (last - 1)} of each stream in epoch 0",
                                         "set a smaller training.learning_rate (now 1e+30) or clip the gradients with "
                                         "training.max_grad_norm (now 0: no clipping)",
                                         "no checkpoint was saved; run the same command to restart")
                for step in last - 2, last - 1:
                    self.assertIn(f"step {step} skipped: ", run.log())
                    line = run.metrics()[step - 1]
                    self.assertIsNone(line["grad_norm"])
                    self.assertIn(line["grad_norm_reason"], ("nan", "inf"))
                self.assertNotIn(f"step {last - 3} skipped", run.log())

    def test_overflow_step_keeps_state(self):
        # The loss scale grows until the gradients overflow float16, repeatedly.
        scaled = {"precision.compute_dtype": "float16", "precision.loss_scale.init_scale": 2**20, "precision.loss_scale.hysteresis": 1,
                  "precision.loss_scale.growth_interval": 1, "training.max_steps": 20, "checkpoint.save_interval": 1,
                  "checkpoint.keep_latest": 30}
        result = self.train(settings=scaled)
        run = self.run_at()
        skipped = [line["step"] for line in run.metrics() if line["grad_norm"] is None]
        self.assertIn(f"Finished: 20 steps, {20 * 64} tokens, {len(skipped)} skipped steps", result.output)
        self.assertGreaterEqual(len([step for step in skipped if step > 1]), 2)
        for step in skipped:
            if step == 1:
                continue
            before, after = run.state(step - 1), run.state(step)
            kept = [name for name in before["tensors"] if not name.startswith(("data/", "mems/"))]
            self.assertGreater(len(kept), 20)
            for name in kept:
                self.assertEqual(self.hashes(before, name), self.hashes(after, name), name)
            self.assertNotEqual(self.hashes(before, "data/cursor"), self.hashes(after, "data/cursor"))

    @staticmethod
    def hashes(state, name):
        return [piece["hash"] for piece in state["tensors"][name]["pieces"]]


class Float16(jobs.TestCase):
    """Linear attention, normalized by sums over the keys, at a high learning rate."""

    sections = {
        "run": {"num_threads": 1},
        "model": {"family": "decoder", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "dropout": 0},
        "data": {"train": "letters.txt", "global_batch_size": 1, "seq_length": 512},
        "training": {"max_steps": 60, "learning_rate": 0.05, "lr_scheduler": {"warmup_steps": 1}},
        "checkpoint": {"save_interval": 0},
        "metrics": {"log_interval": 1, "log_timing": False},
    }

    def test_linear_attention_loss_matches_float32(self):
        letters = random.Random(1).choices("abcde", k=60 * 512)
        (self.directory / "letters.txt").write_text("".join(letters))
        for kind in "performer", "linear", "rfa":
            with self.subTest(kind=kind):
                losses = {}
                for compute in "float32", "float16":
                    name = f"{kind}-{compute}"
                    self.train(name, settings={"model.attention.layer_types": kind, "precision.compute_dtype": compute})
                    metrics = self.run_at(name).metrics()
                    losses[compute] = sum(line["loss"] for line in metrics[-10:]) / 10
                # A uniform choice of five letters has ln 5 = 1.609 nats.
                self.assertLess(abs(losses["float16"] - losses["float32"]), 0.01)


class NonFiniteWeights(jobs.TestCase):
    """Weights with a non-finite loss or gradient are never saved."""

    def assert_resumes(self, directory, settings, layout=Layout(1, 1)):
        last = self.run_at(directory).steps()[-1]
        calm = {**settings, "training.learning_rate": 0.001, "training.max_steps": last + 2}
        result = self.train(directory, layout, calm)
        self.assertIn(f"at step {last}", result.output)
        self.assertIsInstance(self.run_at(directory).metrics()[-1]["loss"], float)

    def evaluate(self, path, code=0):
        return self.longspan("evaluate", path, "--json", "--split", "train", "--max-tokens", 20, code=code)

    def test_interval_save_is_discarded(self):
        # The first step has a finite loss, later steps do not.
        for number, (every, background, layout) in enumerate([(1, True, Layout(1, 1)), (1, False, Layout(2, 2)),
                                                              (4, True, Layout(2, 1))]):
            with self.subTest(every=every, background=background, layout=str(layout)):
                name = f"run-{number}"
                often = {**DIVERGING, "checkpoint.save_interval": every, "checkpoint.async_save": background,
                         "training.max_consecutive_skips": 10}
                result = self.train(name, layout, often, code=4)
                self.assert_one_sentence(result, "training diverged: 10 consecutive steps")
                self.assertEqual(self.run_at(name).entries(), [])
                if every == 1:
                    self.assertIn("warning Checkpoint of step 1 discarded: its weights give a non-finite loss or gradient\n",
                                  self.run_at(name).log())
                # With a lower learning rate, a new run starts in the same directory.
                self.train(name, layout, {**often, "training.learning_rate": 0.001, "training.max_steps": 3})
                self.assertEqual(self.run_at(name).steps()[-1], 3)

    def test_earlier_checkpoints_remain_and_resume(self):
        one, two = Layout(1, 1), Layout(2, 1)
        for number, (in_a_row, background, layout) in enumerate([(1, True, two), (1, False, one), (100, True, one),
                                                                 (100, False, two)]):
            with self.subTest(in_a_row=in_a_row, background=background, layout=str(layout)):
                name = f"run-{number}"
                kept = {**GOOD, "checkpoint.async_save": background}
                self.train(name, layout, kept)
                before = self.run_at(name).state(6)
                worse = {**WORSE, "checkpoint.async_save": background, "training.max_consecutive_skips": in_a_row}
                result = self.train(name, layout, worse, code=4)
                step = f"{name}/checkpoints/step-"
                self.assert_one_sentence(result, f"run the same command to resume from {step}000000006; to resume from an earlier "
                                                 f"one, set checkpoint.resume_from to it, such as {step}000000005, and set "
                                                 "another run.output_dir")
                run = self.run_at(name)
                self.assertEqual(run.entries(), ["step-000000005", "step-000000006"])
                self.assertEqual(run.state(6), before)
                self.longspan("verify", run.path)
                self.assertIsInstance(json.loads(self.evaluate(run.checkpoint(6)).output)["loss"], float)
                self.assert_resumes(name, kept, layout)

    def test_final_save_is_skipped(self):
        for number, (layout, more) in enumerate([(Layout(1, 1), {}), (Layout(2, 1), {}),
                                                 (Layout(1, 1), {"data.validation": "text.txt"})]):
            with self.subTest(layout=str(layout), more=more):
                name = f"run-{number}"
                # One step makes the weights diverge, although its loss is finite.
                for steps in 1, 3:
                    result = self.train(name, layout, {**DIVERGING, **more, "training.max_steps": steps,
                                                       "training.max_consecutive_skips": 9}, code=4)
                    self.assert_one_sentence(result, f"training diverged: the weights after step {steps} give a non-finite "
                                                     "loss or gradient and are not saved; set a smaller training.learning_rate")
                    self.assertEqual(self.run_at(name).entries(), [])

    def stop(self, name, layout, settings, at):
        job = self.start_training(name, layout, {**settings, "training.max_steps": 1000000})
        until(lambda: job.ended() or f"step {at}/" in job.output())
        job.signal(signal.SIGUSR1)
        return job.wait()

    def test_stop_request_does_not_save(self):
        endless = {"training.max_consecutive_skips": 1000000}
        for layout in Layout(1, 1), Layout(2, 1):
            with self.subTest(layout=str(layout)):
                name = f"nothing-{layout.ranks}"
                result = self.stop(name, layout, {**DIVERGING, **endless}, at=3)
                self.assertEqual(result.code, 4, result.output + result.errors)
                self.assert_one_sentence(result, "give a non-finite loss or gradient and are not saved", "no checkpoint was saved")
                self.assertEqual(self.run_at(name).entries(), [])

                name = f"something-{layout.ranks}"
                self.train(name, layout, GOOD)
                result = self.stop(name, layout, {**WORSE, **endless}, at=9)
                self.assertEqual(result.code, 75, result.output + result.errors)
                self.assertRegex(result.output, r"warning: Stopped after step \d+ as requested, without saving it\. Run the same "
                                                r"command to resume from step 6\. If this recurs, set a smaller")
                self.assertEqual(self.run_at(name).steps()[-1], 6)
                self.assert_resumes(name, GOOD, layout)

    def test_evaluate_rejects_non_finite_loss(self):
        # Weights whose loss is finite in float32 and not in float16.
        self.train(settings={"training.max_steps": 1, "training.learning_rate": 1e4, "training.lr_scheduler.warmup_steps": 0,
                             "training.optimizer.type": "sgd"})
        self.assertIsInstance(json.loads(self.evaluate("run").output)["loss"], float)
        for ranks in 1, 2:
            result = self.longspan("evaluate", "run", "--split", "train", "--set", "precision.compute_dtype=float16", ranks=ranks,
                                   code=4)
            self.assert_one_sentence(result, "step-000000001: non-finite loss on text.txt (",
                                     "choose an earlier checkpoint with --checkpoint")
            self.assertEqual(result.output, "")


if __name__ == "__main__":
    jobs.main()
