#!/usr/bin/env python3
"""checkpoint.best_metric: retains the step with the best validation, which commands accept as `best`.

    tests/launch/keep_best_test.py build/launch/longspan
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout

GOOD = {"data.validation": "text.txt", "training.validation.interval": 2, "training.validation.max_batches": 2, "training.max_steps": 6,
        "training.lr_scheduler.type": "constant", "training.lr_scheduler.warmup_steps": 0,
        "checkpoint.save_interval": 5, "checkpoint.keep_latest": 1,
        "checkpoint.best_metric": "loss"}
# Settings that make later steps worse.
WORSE = {**GOOD, "training.learning_rate": 3, "training.max_grad_norm": 0, "training.max_steps": 13}


class BestMetric(jobs.TestCase):
    def best_of_metrics(self):
        measured = [line for line in self.run_at().metrics() if "validation_loss" in line]
        return min(measured, key=lambda line: line["validation_loss"])

    def test_best_step_survives_resume_on_another_layout(self):
        self.train(settings=GOOD, layout=Layout(2, 1))
        best = self.best_of_metrics()
        self.assertEqual(best["step"], 6)
        self.assertEqual(self.run_at().steps(), [6])
        for background in True, False:
            with self.subTest(background=background):
                self.train(settings={**WORSE, "checkpoint.async_save": background,
                                     "training.max_steps": 13 if background else 17}, layout=Layout(1, 2))
                self.assertEqual(self.best_of_metrics(), best)
                self.assertEqual(self.run_at().steps(), [6, 13 if background else 17])
        shown = self.longspan("inspect", "run").output
        self.assertIn(f"best loss {best['validation_loss']:.4f}, at step 6", shown)
        found = [json.loads(self.longspan("evaluate", "run", "--split", "validation", "--json", *more).output)["loss"]
                 for more in ([], ["--checkpoint", "best"], ["--checkpoint", 6])]
        self.assertLess(found[1], found[0])
        self.assertEqual(found[1], found[2])

    def test_saves_new_best_step_and_removes_previous_one(self):
        self.train(settings={**GOOD, "checkpoint.save_interval": 0, "training.max_steps": 5, "training.learning_rate": 0.001})
        measured = [line["validation_loss"] for line in self.run_at().metrics() if "validation_loss" in line]
        self.assertEqual(measured, sorted(measured, reverse=True))  # each is the best so far
        self.assertEqual(self.run_at().steps(), [5])
        self.assertIn("step-000000002", self.run_at().log())

    def test_changed_metric_is_reported(self):
        self.train(settings=GOOD)
        result = self.train(settings={**GOOD, "checkpoint.best_metric": "bits_per_byte", "training.max_steps": 8})
        self.assertIn("Step 6 (best loss so far) is no longer retained: checkpoint.best_metric is bits_per_byte", result.output)

    def test_rejects_unknown_metric_and_missing_validation(self):
        for settings, *parts in (
                ({"checkpoint.best_metric": "blue"}, "--set: checkpoint.best_metric: expected loss, bits_per_byte"),
                ({"data.validation": None}, "checkpoint.best_metric: loss requires data.validation")):
            with self.subTest(parts=parts):
                result = self.train(settings={key: value for key, value in {**GOOD, **settings}.items() if value}, code=2)
                self.assert_one_sentence(result, *parts)
        self.train(settings={**GOOD, "checkpoint.best_metric": ""})
        result = self.longspan("evaluate", "run", "--split", "validation", "--checkpoint", "best", code=3)
        self.assert_one_sentence(result, "step-000000006: no best checkpoint; set checkpoint.best_metric")


if __name__ == "__main__":
    jobs.main()
