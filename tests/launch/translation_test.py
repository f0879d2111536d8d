#!/usr/bin/env python3
"""Translation: training, resuming within an epoch, evaluation, and decoding of lines.

    tests/launch/translation_test.py build/launch/longspan
"""

import json
import random
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout

SECTIONS = {
    "run": {"output_dir": "run", "num_threads": 1, "task": "translation"},
    "model": {"family": "encoder_decoder", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "dropout": 0.1},
    "data": {"train": "train.source", "train_target": "train.target", "validation": "validation.source",
             "validation_target": "validation.target", "global_batch_tokens": 512, "max_length": 12},
    "training": {"max_steps": 12, "learning_rate": 0.01, "lr_scheduler": {"warmup_steps": 2},
                 "validation": {"interval": 6}, "label_smoothing": 0.1},
    "precision": {"compute_dtype": "float64"},
    "checkpoint": {"save_interval": 5, "keep_latest": 10},
    "metrics": {"log_interval": 1, "log_timing": False},
}


class Translation(jobs.TestCase):
    sections = SECTIONS

    def setUp(self):
        super().setUp()
        self.write_words(300)

    def write_words(self, count):
        source = random.Random(1)
        for part, lines in ("train", count), ("validation", 20):
            words = ["".join(source.choice("abcdef") for _ in range(source.randint(1, 9))) for _ in range(lines)]
            self.write(f"{part}.source", words)
            self.write(f"{part}.target", [word[::-1].upper() for word in words])

    def write(self, name, lines):
        (self.directory / name).write_text("".join(line + "\n" for line in lines))

    def losses(self, directory="run"):
        return [(line["loss"], line["grad_norm"], line.get("validation_loss", 0))
                for line in self.run_at(directory).metrics()]

    def assert_near(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            for value, reference in zip(one, other):
                self.assertAlmostEqual(value, reference, delta=1e-9)

    def test_losses_are_equal_on_every_layout(self):
        self.train("one")
        expected = self.losses("one")
        cases = {"data": (Layout(2, 1), {"parallel.zero_stage": 2}), "tensor": (Layout(1, 2), {"memory.recompute_granularity": "full"}),
                 "time": (Layout(1, 1, context=2), {"memory.num_feed_forward_chunks": 3}),
                 "all": (Layout(1, 2, context=2, sequence=True), {"memory.recompute_granularity": "selective"}),
                 "parts": (Layout(2, 1), {"training.gradient_accumulation_steps": 2, "memory.num_loss_chunks": 4})}
        for name, (layout, more) in cases.items():
            with self.subTest(name):
                self.train(name, layout, more)
                self.assert_near(self.losses(name), expected)

    def test_resumes_within_an_epoch(self):
        relative = {"model.position_embedding_type": "relative", "model.relative_attention_max_distance": 4}
        self.train("whole", Layout(2, 1), relative)
        cursor = self.run_at("whole").state(5)["tensors"]["data/cursor"]
        self.assertEqual(cursor["shape"], [1, 4])
        # As after a kill: step 5 is the last checkpoint.
        self.train("broken", Layout(2, 1), {**relative, "training.max_steps": 12, "checkpoint.save_interval": 5})
        for layout, exact in (Layout(2, 1), True), (Layout(1, 2), False), (Layout(1, 1, context=2), False), (Layout(4, 1), False):
            with self.subTest(str(layout)):
                self.train("again", layout, {**relative, "checkpoint.resume_from": self.run_at("broken").checkpoint(5)})
                again = self.run_at("again")
                whole = self.run_at("whole")
                if exact:
                    self.assertEqual(again.metrics_bytes().splitlines(), whole.metrics_bytes().splitlines()[5:])
                    self.assertEqual(again.state(12)["tensors"], whole.state(12)["tensors"])
                self.assert_near(self.losses("again"), self.losses("whole")[5:])
                for path in sorted(again.path.rglob("*"), reverse=True):
                    path.rmdir() if path.is_dir() else path.unlink()

    def test_changed_batches_resume_at_next_epoch(self):
        self.train(settings={"training.max_steps": 5})
        for layout in Layout(1, 1), Layout(2, 1):  # later resumes with these keys are exact
            self.train("run", layout, {"data.global_batch_tokens": 400, "training.max_steps": 5 + 2 * layout.ranks})
        log = self.run_at().log()
        self.assertEqual(log.count("batches differ from those of the checkpoint"), 1)
        self.assertRegex(log, r"batches differ .* data\.global_batch_tokens, .*; resuming at the start of epoch 1, "
                              r"skipping the rest of epoch 0 after \d+ of \d+ batches")
        self.assertEqual(self.run_at().steps(), [5, 7, 9])

    def test_stopped_run_resumes_exactly(self):
        self.train("whole", settings={"training.max_steps": 60})
        job = self.start_training("stopped", Layout(1, 1), {"training.max_steps": 60})
        self.assertTrue(jobs.until(lambda: self.run_at("stopped").steps() or job.ended()))
        job.signal(signal.SIGUSR1)
        self.assertIn(job.wait().code, (0, 75))
        self.train("stopped", settings={"training.max_steps": 60})
        self.assertEqual(self.run_at("stopped").metrics_bytes(), self.run_at("whole").metrics_bytes())

    def test_learns_and_translates(self):
        self.write_words(2000)  # it would memorize 300 without learning to reverse
        learn = {"training.max_steps": 600, "precision.compute_dtype": "float32", "model.dropout": 0, "training.validation.interval": 600,
                 "training.validation.num_decoded_examples": 20, "checkpoint.save_interval": 0,
                 "metrics.log_interval": 600, "model.hidden_size": 48,
                 "data.global_batch_tokens": 1024, "training.learning_rate": 0.006, "training.lr_scheduler.warmup_steps": 40,
                 "training.label_smoothing": 0, "data.bleu_tokenizer": "char"}
        self.train("run", Layout(2, 1), learn)
        last = self.run_at().metrics()[-1]
        self.assertLess(last["validation_loss"], 0.1)
        self.assertGreater(last["validation_chrf"], 95)
        self.assertGreater(last["validation_bleu"], 90)
        found = json.loads(self.longspan("evaluate", "run", "--json").output)
        self.assertAlmostEqual(found["loss"], last["validation_loss"], places=5)
        self.assertGreater(found["exact_match"], 90)
        self.assertRegex(self.longspan("evaluate", "run", "--beam", "1").output,
                         r"validation\.source: loss [\d.]+, perplexity [\d.]+, [\d.]+ bits per byte, BLEU \(char\) [\d.]+, chrF [\d.]+")
        # Lines of one word have no 4-gram of words.
        words = self.longspan("evaluate", "run", "--set", "data.bleu_tokenizer=13a").output
        self.assertIn(", BLEU 0.00, chrF ", words)
        self.assertIn("; BLEU counts words, but the references have no spaces; set data.bleu_tokenizer", words)
        self.assertIn("data.bleu_tokenizer", self.longspan("evaluate", "run", "--set", "data.bleu_tokenizer=intl", code=2).errors)
        self.longspan("generate", "run", "--input", "validation.source", "--output", "out")
        one = (self.directory / "out").read_text()
        lines = (self.directory / "validation.target").read_text().splitlines()
        self.assertGreater(sum(a == b for a, b in zip(one.splitlines(), lines)), len(lines) / 2)
        for layout in Layout(2, 1), Layout(1, 2), Layout(1, 1, context=2):
            with self.subTest(str(layout)):
                text = self.longspan("generate", "run", "--input", "validation.source", *flat_layout(layout),
                                     ranks=layout.ranks).output
                self.assertEqual(text, one)
        best = self.longspan("generate", "run", "--input", "validation.source", "--n-best", 2).output.splitlines()
        self.assertEqual([line.split("\t")[0] for line in best], [str(i // 2 + 1) for i in range(40)])
        self.assertEqual([line.split("\t")[2] for line in best[::2]], one.splitlines())
        sampled = [self.longspan("generate", "run", "--input", "validation.source", "--sample", "--seed", 3).output
                   for _ in range(2)]
        self.assertEqual(*sampled)
        self.write("empty", ["", "ab", ""])
        self.assertEqual([bool(line) for line in
                          self.longspan("generate", "run", "--input", "empty").output.splitlines()], [False, True, False])

    def test_commands_of_configs_page_run(self):
        text = (jobs.SOURCE / "configs" / "README.md").read_text().split("```yaml\n# pairs.yaml\n")[1]
        configuration, rest = text.split("```\n```sh\n", 1)
        (self.directory / "pairs.yaml").write_text(configuration)
        for side in "en", "es":
            for part, lines in (("train", 400), ("validation", 60)):
                jobs.write_text(self.directory / "words", 12 * lines, seed=len(side + part))
                words = (self.directory / "words").read_text().split()
                self.write(f"verses.{part}.{side}", [" ".join(words[12 * i:12 * i + 12]) for i in range(lines)])
        self.write("questions.en", ["in that day", "the lord said unto moses"])
        commands = [line.split("#")[0].split() for line in rest.split("```")[0].splitlines()]
        small = jobs.flat({"training.max_steps": 2, "model.hidden_size": 32, "data.tokenizer.vocab_size": 300,
                           "training.validation.num_decoded_examples": 3,
                           "run.num_threads": 1})
        self.assertEqual([command[:2] for command in commands],
                         [["build/launch/longspan", word] for word in ("launch", "evaluate", "generate")])
        self.longspan(*commands[0][1:], *small)
        self.assertIn("BLEU", self.longspan(*commands[1][1:]).output)
        self.longspan(*commands[2][1:])
        self.assertEqual(len((self.directory / "answers.es").read_text().splitlines()), 2)

    def test_rejects_invalid_files(self):
        self.write("short", ["a", "b"])
        self.assert_one_sentence(self.train("run", settings={"data.train_target": "short"}, code=3),
                                 "train.source", "300", "short", "2")
        self.write("hole", ["a"] * 299 + [""])
        for layout in Layout(1, 1), Layout(2, 1):
            self.assert_one_sentence(self.train("run", layout, {"data.train_target": "hole"}, code=3), "hole:300")
        self.assert_one_sentence(self.train("run", settings={"data.max_length": 5}, code=3), "train.target:3:", "data.max_length")
        self.assert_one_sentence(self.train("run", settings={"data.global_batch_tokens": 8}, code=3), "data.global_batch_tokens")
        self.assert_one_sentence(self.train("run",
                                            settings={"data.tokenizer.type": "sentencepiece", "data.tokenizer.vocab_size": 5000}, code=3),
                                 "train.source and train.target: a vocabulary of 5000 is too large")
        # Validation data are checked at the start.
        self.write("long", ["abcdefabcdefabcdef"])
        self.assert_one_sentence(self.train("run", settings={"data.validation": "long", "data.validation_target": "long"}, code=3),
                                 "long:1", "data.max_length")
        self.assertFalse((self.directory / "run" / "checkpoints").exists() and self.run_at().steps())

    def test_rejects_incompatible_options(self):
        for settings, part in (({"run.task": "language_modeling"}, "model.family"), ({"data.train_target": ""}, "data.train_target"),
                               ({"model.cross_attention.layer_mapping": "same", "model.num_encoder_layers": 3}, "same"),
                               ({"data.tokenizer.type": "char"}, "data.tokenizer.type"),
                               ({"model.position_embedding_type": "learned", "model.max_position_embeddings": 12},
                                "model.max_position_embeddings: expected at least "),
                               ({"model.position_embedding_type": "learned", "data.max_length": 0}, "model.max_position_embeddings"),
                               ({"parallel.context_parallel_size": 8}, "data.pad_to_multiple_of")):
            with self.subTest(str(settings)):
                self.assertIn(part, self.train("run", settings=settings, code=2).errors)
        self.train("run", settings={"training.max_steps": 1})
        for arguments, part in (([], "--input"), (["--input", "validation.source", "--n-best", 5], "--n-best")):
            self.assert_one_sentence(self.longspan("generate", "run", *arguments, code=2), part)
        self.assert_one_sentence(self.longspan("generate", "run", "--input", "nothing", code=3), "nothing")
        for command, option in ("generate", "--output"), ("generate", "--beam"), ("evaluate", "--data-target"):
            self.assertIn(option, self.longspan(command, "run", option, 3, code=2).errors)
        self.assertIn("--max-new-tokens", self.longspan("generate", "run", "--input", "train.source", "--max-new-tokens", 3, code=2).errors)
        self.assert_one_sentence(self.longspan("evaluate", "run", "--mem-len", 4, code=2), "--mem-len")


def flat_layout(layout):
    return jobs.flat(layout.settings())


if __name__ == "__main__":
    jobs.main()
