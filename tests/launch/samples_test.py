#!/usr/bin/env python3
"""metrics.num_samples: texts that the model generates at each validation, in samples.jsonl.

    tests/launch/samples_test.py build/launch/longspan
"""

import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout


class SamplesTest(jobs.TestCase):
    def samples_bytes(self, directory="run"):
        return (self.directory / directory / "samples.jsonl").read_bytes()

    def samples(self, directory="run"):
        return [json.loads(line) for line in self.samples_bytes(directory).splitlines()]


class TextSamples(SamplesTest):
    sections = {**jobs.TestCase.sections,
                "data": {**jobs.TestCase.sections["data"], "validation": "held-out.txt"},
                "training": {**jobs.TestCase.sections["training"], "max_steps": 12, "validation": {"interval": 3, "max_batches": 2}},
                "precision": {"compute_dtype": "float64"},
                "metrics": {**jobs.TestCase.sections["metrics"], "num_samples": 2}}

    def setUp(self):
        super().setUp()
        jobs.write_text(self.directory / "held-out.txt", words=400, seed=2)

    def test_samples_continue_validation_prefixes(self):
        self.train()
        text = (self.directory / "held-out.txt").read_text()
        half = (len(text) - 96) // 2
        samples = self.samples()
        self.assertEqual([(one["step"], one["sample"]) for one in samples], [(step, number) for step in (3, 6, 9, 12) for number in (0, 1)])
        for one in samples:
            passage = text[half * one["sample"]:]
            self.assertEqual((one["input"], one["reference"]), (passage[:32], passage[32:96]))
        self.assertEqual(len({one["output"] for one in samples}), 8)
        # `generate` gives the same texts.
        for one in samples[-2:]:
            generated = self.longspan("generate", "run", "--prompt", one["input"], "--max-new-tokens", 64, "--seed", 1 + one["sample"]).output
            self.assertEqual(one["input"] + one["output"], generated[:-1])

    def test_samples_of_equal_prompts_differ(self):
        (self.directory / "held-out.txt").write_text("the same words again and again. " * 3)
        self.train(settings={"metrics.num_samples": 3, "training.max_steps": 3})
        samples = self.samples()
        self.assertEqual(len({one["input"] for one in samples}), 1)
        self.assertEqual(len({one["output"] for one in samples}), 3)

    def test_byte_samples_start_at_a_character(self):
        text = "\u00e4\u4e16\U0001f600" * 60  # 9 bytes each
        (self.directory / "held-out.txt").write_text(text)
        self.train(settings={"metrics.num_samples": 7, "training.max_steps": 3})
        inputs = [one["input"] for one in self.samples()]
        self.assertEqual(len(inputs), 7)
        for one in inputs:
            self.assertIn(one[0], text)

    def test_samples_do_not_change_training(self):
        self.train("with")
        self.train("without", settings={"metrics.num_samples": 0})
        self.assertEqual(self.run_at("with").metrics(), self.run_at("without").metrics())
        self.assertFalse((self.directory / "without" / "samples.jsonl").exists())

    def test_resumed_samples_match_uninterrupted_run(self):
        self.train()
        whole = self.samples_bytes()
        for step in self.run_at().steps():
            if step > 4:
                shutil.rmtree(self.run_at().checkpoint(step))
        with open(self.directory / "run" / "samples.jsonl", "ab") as file:
            file.write(whole.splitlines()[0][:20])  # a line cut off by a kill
        self.train()
        self.assertEqual(self.samples_bytes(), whole)
        # A new run renames the earlier file.
        shutil.rmtree(self.directory / "run" / "checkpoints")
        self.train(settings={"checkpoint.resume_from": "never"})
        self.assertEqual(self.samples_bytes(), whole)
        [aside] = (self.directory / "run").glob("samples.jsonl.before-*")
        self.assertEqual(aside.read_bytes(), whole)
        # A file with other content is not truncated.
        (self.directory / "run" / "samples.jsonl").write_text("mine\n")
        result = self.longspan("train", "tiny.yaml", "--set", "training.max_steps=13", code=3)
        self.assert_one_sentence(result, "samples.jsonl:1: expected a sample; move the file away")

    def test_file_of_other_content_is_not_changed(self):
        for content in "mine\n", "mine":
            (self.directory / "run").mkdir(exist_ok=True)
            (self.directory / "run" / "samples.jsonl").write_text(content)
            result = self.train(code=3)
            self.assert_one_sentence(result, "samples.jsonl:1: expected a sample; move the file away")
            self.assertEqual(self.samples_bytes(), content.encode())
            shutil.rmtree(self.directory / "run")
        (self.directory / "run").mkdir()
        (self.directory / "run" / "samples.jsonl").write_text("mine")
        self.train(settings={"metrics.num_samples": 0})
        self.assertEqual(self.samples_bytes(), b"mine")

    def test_samples_of_lost_steps_are_removed(self):
        self.train()
        whole = self.samples()
        for step in self.run_at().steps():
            if step > 4:
                shutil.rmtree(self.run_at().checkpoint(step))
        last = self.run_at().steps()[-1]
        self.train(settings={"metrics.num_samples": 0})
        self.assertEqual(self.samples(), [one for one in whole if one["step"] <= last])

    def test_samples_are_equal_on_every_layout(self):
        self.train("one")
        expected = self.samples("one")
        for name, layout in {"data": Layout(2, 1), "tensor": Layout(1, 2), "context": Layout(1, 1, context=2),
                             "all": Layout(1, 2, context=2, sequence=True)}.items():
            with self.subTest(name):
                self.train(name, layout)
                self.assertEqual(self.samples(name), expected)

    def test_requires_validation_and_generative_task(self):
        result = self.longspan("train", "tiny.yaml", "--set", "data.validation=", code=2)
        self.assert_one_sentence(result, "metrics.num_samples: 2 requires data.validation")
        result = self.longspan("config", "tiny.yaml", "--set", "run.task=classification", "--set", "model.family=encoder", code=2)
        self.assertIn("metrics.num_samples: expected 0, found 2", result.errors)


class TranslationSamples(SamplesTest):
    sections = {
        "run": {"output_dir": "run", "num_threads": 1, "task": "translation"},
        "model": {"family": "encoder_decoder", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2},
        "data": {"train": "source", "train_target": "target", "validation": "source", "validation_target": "target",
                 "global_batch_tokens": 256, "max_length": 16},
        "training": {"max_steps": 6, "learning_rate": 0.01, "lr_scheduler": {"warmup_steps": 2}, "validation": {"interval": 3}},
        "precision": {"compute_dtype": "float64"},
        "metrics": {"log_interval": 1, "log_timing": False, "num_samples": 5},
    }

    def setUp(self):
        super().setUp()
        words = ["b", "ab", "cab", "abba", "cabbed", "bead", "fed", "ace"] * 8
        (self.directory / "source").write_text("".join(word + "\n" for word in words))
        (self.directory / "target").write_text("".join(word[::-1].upper() + "\n" for word in words))

    def test_samples_are_greedy_translations_of_first_lines(self):
        self.train()
        samples = self.samples()
        lines = [(self.directory / side).read_text().splitlines()[:5] for side in ("source", "target")]
        self.assertEqual([one["step"] for one in samples], [3] * 5 + [6] * 5)
        for part in samples[:5], samples[5:]:
            self.assertEqual([[one[name] for one in part] for name in ("input", "reference")], lines)
        generated = self.longspan("generate", "run", "--input", "source", "--beam", 1).output.splitlines()[:5]
        self.assertEqual([one["output"] for one in samples[5:]], generated)
        for name, layout in {"data": Layout(2, 1), "context": Layout(1, 1, context=2)}.items():
            self.train(name, layout)
            self.assertEqual(self.samples(name), samples)


if __name__ == "__main__":
    jobs.main()
