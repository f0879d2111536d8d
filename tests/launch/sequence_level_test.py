#!/usr/bin/env python3
"""Sequence-level training: from a cross-entropy model, on every layout, resumed, and planned.

    tests/launch/sequence_level_test.py build/launch/longspan
"""

import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout

SECTIONS = {
    "run": {"output_dir": "run", "num_threads": 1, "task": "translation"},
    "model": {"family": "encoder_decoder", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 4, "dropout": 0.1},
    "data": {"train": "train.source", "train_target": "train.target", "validation": "validation.source",
             "validation_target": "validation.target", "global_batch_tokens": 256, "max_length": 12},
    "training": {"max_steps": 6, "learning_rate": 0.01, "lr_scheduler": {"type": "constant"}},
    "precision": {"compute_dtype": "float64"},
    "checkpoint": {"save_interval": 3, "keep_latest": 10},
    "metrics": {"log_interval": 1, "log_timing": False},
}

LEVEL = {"training.sequence_level.method": "minimum_risk", "training.sequence_level.num_candidates": 4,
         "training.sequence_level.metric": "chrf", "training.sequence_level.alpha": 0.5,
         "training.sequence_level.cross_entropy_weight": 0.1, "training.sequence_level.max_extra_length": 3}


class SequenceLevel(jobs.TestCase):
    sections = SECTIONS

    def setUp(self):
        super().setUp()
        source = random.Random(1)
        for part, lines in ("train", 200), ("validation", 12):
            words = ["".join(source.choice("abcdef") for _ in range(source.randint(1, 9))) for _ in range(lines)]
            self.write(f"{part}.source", words)
            self.write(f"{part}.target", [word[::-1].upper() for word in words])

    def write(self, name, lines):
        (self.directory / name).write_text("".join(line + "\n" for line in lines))

    def numbers(self, directory):
        names = "loss", "loss_loss", "loss_risk", "grad_norm", "reward_mean", "distinct_candidates", "candidate_length"
        return [[line[name] for name in names] for line in self.run_at(directory).metrics()]

    def test_fine_tunes_equally_on_every_layout_and_after_a_resume(self):
        self.train("trained")
        start = {**LEVEL, "training.init_from.path": "trained"}
        self.train("one", settings=start)
        expected = self.numbers("one")
        self.assertEqual(len(expected), 6)
        self.assertTrue(all(1 < line[5] <= 4 for line in expected), expected)
        whole = self.run_at("one")
        self.train("again", settings={**LEVEL, "checkpoint.resume_from": whole.checkpoint(3)})
        self.assertEqual(self.run_at("again").state(6)["tensors"], whole.state(6)["tensors"])
        self.assertEqual(self.numbers("again"), expected[3:])
        for name, layout in (("data", Layout(2, 1)), ("tensor", Layout(1, 2)), ("time", Layout(1, 1, context=2))):
            with self.subTest(name):
                self.train(name, layout, start)
                for found, other in zip(self.numbers(name), expected, strict=True):
                    for one, reference in zip(found, other):
                        self.assertAlmostEqual(one, reference, delta=1e-9)

    def test_plan_counts_candidates(self):
        def memory(settings):
            return jobs.bytes_of(self.longspan("plan", "tiny.yaml", *jobs.flat(settings)).output, "peak")
        self.assertGreater(memory(LEVEL), 2 * memory({}))

    def test_rejects_invalid_settings_with_key_and_line(self):
        key = "training.sequence_level"
        for settings, message in (
                ({"method": "leave_one_out", "num_candidates": 1},
                 f"{key}.num_candidates: expected at least 2 with {key}.method: leave_one_out, found 1; "),
                ({"method": "self_critical", "temperature": 0.5},
                 f"{key}.temperature: expected 1 with {key}.method: self_critical, found 0.5; "),
                ({"method": "minimum_risk", "metric": "chrf", "metric_unit": "tokens"},
                 f"{key}.metric: chrf cannot be combined with {key}.metric_unit: tokens; ")):
            with self.subTest(message):
                (self.directory / "tiny.yaml").write_text(json.dumps(jobs.merged(
                    SECTIONS, {"training": {"sequence_level": settings}}), indent=1))
                found = self.longspan("train", "tiny.yaml", code=2)
                self.assertRegex(found.errors, r"tiny\.yaml:\d+:\d+: ")
                self.assert_one_sentence(found, message)
        (self.directory / "tiny.yaml").write_text(json.dumps(SECTIONS, indent=1))
        found = self.train(settings={"training.sequence_level.method": "self_critical", "training.label_smoothing": 0.1}, code=2)
        self.assert_one_sentence(found, f"{key}.method: self_critical cannot be combined with training.label_smoothing above 0")


if __name__ == "__main__":
    jobs.main()
