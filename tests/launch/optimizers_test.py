#!/usr/bin/env python3
"""Optimizers and schedules in full runs: resuming, rejection, validation.

    tests/launch/optimizers_test.py build/launch/longspan
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout

KIND = "training.optimizer.type"
SCHEDULE_FREE = {KIND: "schedule_free_adamw", "training.lr_scheduler.type": "constant"}


class OptimizerType(jobs.TestCase):
    def test_resume_rejects_state_of_another_type(self):
        self.train(settings={"training.max_steps": 2})
        others = {"lamb": {}, "adafactor": {}, "adagrad": {}, "radam": {}, "lion": {}, "muon": {},
                  "schedule_free_adamw": SCHEDULE_FREE}
        for kind, settings in others.items():
            with self.subTest(kind=kind):
                result = self.train(settings={"training.max_steps": 3, **settings, KIND: kind}, code=2)
                self.assert_one_sentence(result, "step-000000002: expected the optimizer state of ", kind, "found the moments of adam or adamw",
                                         "training.init_from.path")

    def test_warns_of_unused_keys(self):
        result = self.longspan("config", "tiny.yaml", "--set", f"{KIND}=lion", "--set", "training.optimizer.momentum=0.5",
                               "--set", "training.optimizer.beta2=0.98")
        printed = result.output + result.errors
        self.assertIn("training.optimizer.momentum is ignored: training.optimizer.type is lion", printed)
        self.assertNotIn("training.optimizer.beta2 is ignored", printed)


class ElasticResume(jobs.TestCase):
    """Resumes optimizer state whose shape or sharding differs from that of the weights on another layout."""

    settings = {"precision.compute_dtype": "float64", "training.max_steps": 8, "checkpoint.save_interval": 4}
    kinds = {
        "adafactor": {KIND: "adafactor", "training.optimizer.beta1": 0.9},
        "muon": {KIND: "muon", "training.optimizer.weight_decay": 0.1},
        "schedule_free_adamw": SCHEDULE_FREE,
    }

    def test_losses_match_on_another_layout(self):
        for name, kind in self.kinds.items():
            for saver, resumed in (Layout(2, 1), Layout(1, 2)), (Layout(2, 2), Layout(1, 1)):
                with self.subTest(kind=name, saved=str(saver), resumed=str(resumed)):
                    settings = {**self.settings, **kind}
                    directory = f"{name}-{saver.ranks}"
                    self.train(directory, saver, {**settings, "parallel.zero_stage": 2})
                    run = self.run_at(directory)
                    again = f"{directory}-again"
                    self.train(again, resumed, {**settings, "parallel.zero_stage": 1, "checkpoint.resume_from": run.checkpoint(4)})
                    for line, reference in zip(self.run_at(again).metrics(), run.metrics()[4:], strict=True):
                        for key in "loss", "grad_norm":
                            self.assertLessEqual(abs(line[key] - reference[key]), 1e-9 * abs(reference[key]), line)


class ScheduleFree(jobs.TestCase):
    def test_validates_and_saves_averaged_weights(self):
        jobs.write_text(self.directory / "held-out.txt", words=300, seed=2)
        settings = {**SCHEDULE_FREE, "data.validation": "held-out.txt", "training.max_steps": 12, "checkpoint.save_interval": 6,
                    "training.validation.interval": 6}
        self.train(settings=settings)
        run = self.run_at()
        for step in 6, 12:
            found = json.loads(self.longspan("evaluate", "run", "--checkpoint", step, "--json").output)
            self.assertAlmostEqual(found["loss"], run.metrics()[step - 1]["validation_loss"], delta=1e-5)
        # Validation does not change training.
        self.train("unmeasured", settings={**settings, "training.validation.interval": 0})
        self.assertEqual(self.run_at("unmeasured").state(12)["tensors"], run.state(12)["tensors"])

    def test_requires_constant_schedule(self):
        result = self.train(settings={KIND: "schedule_free_adamw"}, code=2)
        self.assertIn("training.lr_scheduler.type", result.errors)
        self.assertIn("requires training.lr_scheduler.type: constant, found cosine", result.errors)


class WarmupStableDecay(jobs.TestCase):
    settings = {"training.lr_scheduler.type": "warmup_stable_decay", "training.lr_scheduler.decay_steps": 0}

    def test_decay_can_start_at_any_stable_step(self):
        self.train("stable", settings={**self.settings, "training.max_steps": 12, "training.lr_scheduler.total_steps": 1000,
                                       "checkpoint.save_interval": 4})
        stable = self.run_at("stable")
        branch = {**self.settings, "training.max_steps": 12, "training.lr_scheduler.decay_steps": 4}
        self.train("branch", settings={**branch, "checkpoint.resume_from": stable.checkpoint(8)})
        self.train("at-once", settings=branch)
        found, expected = self.run_at("branch"), self.run_at("at-once")
        self.assertEqual(found.metrics(), expected.metrics()[8:])
        self.assertEqual(found.state(12)["tensors"], expected.state(12)["tensors"])
        rates = [line["learning_rate"] for line in found.metrics()]
        for rate, factor in zip(rates, (0.8, 0.6, 0.4, 0.2), strict=True):
            self.assertAlmostEqual(rate, 0.01 * factor, delta=1e-12)
        self.assertEqual(expected.metrics()[:8], stable.metrics()[:8])

    def test_rejects_warmup_plus_decay_longer_than_schedule(self):
        result = self.train(settings={**self.settings, "training.max_steps": 8, "training.lr_scheduler.decay_steps": 7}, code=2)
        self.assertIn("training.lr_scheduler.decay_steps: expected at most the 8 updates of the schedule",
                      result.errors)

    def test_rejects_min_lr_above_learning_rate(self):
        for schedule, code in ("cosine", 2), ("constant", 0):
            result = self.train(settings={"training.lr_scheduler.type": schedule, "training.learning_rate": 0.01,
                                          "training.lr_scheduler.min_lr": 0.02}, code=code)
            self.assertEqual("training.lr_scheduler.min_lr: expected at most training.learning_rate = 0.01, found 0.02"
                             in result.errors, code == 2)


if __name__ == "__main__":
    jobs.main()
