#!/usr/bin/env python3
"""Non-autoregressive translation: training, resuming, decoding, and distilled targets.

    tests/launch/masked_translation_test.py build/launch/longspan
"""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout

SECTIONS = {
    "run": {"output_dir": "run", "num_threads": 1, "task": "translation"},
    "model": {"family": "encoder_decoder", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4,
              "dropout": 0.1, "decoder_type": "non_autoregressive"},
    "data": {"train": "train.source", "train_target": "train.target", "validation": "validation.source",
             "validation_target": "validation.target", "global_batch_tokens": 512, "max_length": 12},
    "training": {"max_steps": 8, "learning_rate": 0.01, "lr_scheduler": {"warmup_steps": 2},
                 "validation": {"interval": 4, "num_decoded_examples": 4}, "label_smoothing": 0.1},
    "precision": {"compute_dtype": "float64"},
    "checkpoint": {"save_interval": 3, "keep_latest": 10},
    "metrics": {"log_interval": 1, "log_timing": False},
}


class NonAutoregressiveTranslation(jobs.TestCase):
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

    def losses(self, directory):
        return [(line["loss"], line["grad_norm"], line.get("validation_loss", 0), line.get("validation_chrf", 0))
                for line in self.run_at(directory).metrics()]

    def assert_near(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            for value, reference in zip(one, other):
                self.assertAlmostEqual(value, reference, delta=1e-9)

    def test_resumes_and_generates_equally_on_every_layout(self):
        self.train("whole", Layout(2, 1))
        line = self.run_at("whole").metrics()[-1]
        self.assertEqual(line["out_of_range_lengths_mean"], 0)
        for name, layout, exact in (("data", Layout(2, 1), True), ("tensor", Layout(1, 2), False),
                                    ("time", Layout(1, 1, context=2), False)):
            with self.subTest(name):
                self.train(name, layout, {"checkpoint.resume_from": self.run_at("whole").checkpoint(3)})
                if exact:
                    self.assertEqual(self.run_at(name).state(8)["tensors"], self.run_at("whole").state(8)["tensors"])
                self.assert_near(self.losses(name), self.losses("whole")[3:])
        outputs = {self.longspan("generate", "whole", "--input", "validation.source", "--max-iterations", 3, "--length-beam", 2,
                                 *jobs.flat(layout.settings()), ranks=layout.ranks).output
                   for layout in (Layout(1, 1), Layout(2, 1), Layout(1, 2), Layout(1, 1, context=2))}
        self.assertEqual(len(outputs), 1)
        self.assertEqual(len(outputs.pop().splitlines()), 12)

    def test_trains_on_distilled_targets(self):
        teach = {"model.decoder_type": "autoregressive", "training.max_steps": 3}
        self.train("teacher", settings=teach)
        self.longspan("generate", "teacher", "--input", "train.source", "--output", "distilled", "--beam", 4)
        found = (self.directory / "distilled").read_bytes().split(b"\n")[:-1]
        self.assertEqual(len(found), 200)
        # A barely trained teacher may generate empty lines.
        (self.directory / "distilled").write_bytes(b"".join((line or b"A") + b"\n" for line in found))
        self.train("student", settings={"data.train_target": "distilled", "data.overlong_examples": "truncate",
                                        "model.nat.objective": "iterative",
                                        "model.nat.num_refinement_passes": 2, "model.nat.src_embedding_copy": True})
        self.assertIn("word error rate", self.longspan("evaluate", "student", "--max-iterations", 2).output)

    def test_rejects_incompatible_options(self):
        for settings, part in (({"model.use_pointer_generator": True, "training.label_smoothing": 0},
                                "model.decoder_type: non_autoregressive does not support"),
                               ({"training.scheduled_sampling.method": "two_pass"}, "training.scheduled_sampling.method"),
                               ({"model.nat.objective": "vanilla", "model.nat.src_embedding_copy": True,
                                 "model.share_encoder_decoder_embeddings": False},
                                "model.nat.src_embedding_copy"),
                               ({"model.nat.objective": "some"}, "cmlm, vanilla or iterative"),
                               ({"model.nat.num_refinement_passes": 0}, "model.nat.num_refinement_passes")):
            with self.subTest(str(settings)):
                self.assertIn(part, self.train("run", settings=settings, code=2).errors)
        self.train("run", settings={"training.max_steps": 1})
        for arguments, part in ((["--length-penalty", 1], "length penalty"), (["--sample"], "sampling requires model.decoder_type: autoregressive"),
                                (["--n-best", 3, "--length-beam", 2], "length beam of 2")):
            self.assert_one_sentence(self.longspan("generate", "run", "--input", "validation.source", *arguments, code=2), part)
        self.train("causal", settings={"training.max_steps": 1, "model.decoder_type": "autoregressive"})
        self.assert_one_sentence(self.longspan("generate", "causal", "--input", "validation.source", "--max-iterations", 3, code=2),
                                 "model.decoder_type: non_autoregressive")


if __name__ == "__main__":
    jobs.main()
