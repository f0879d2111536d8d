#!/usr/bin/env python3
"""Training data as lists, patterns, weighted mixtures, compressed files and documents.

    tests/launch/mixed_texts_test.py build/launch/longspan
"""

import gzip
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout

LAYOUTS = Layout(1, 1), Layout(2, 1), Layout(1, 2), Layout(1, 1, 2)


def sentences(letters, count, seed):
    """Returns random lines of 5 to 89 characters."""
    source = random.Random(seed)
    return ["".join(source.choice(letters) for _ in range(source.randrange(5, 90))) for _ in range(count)]


class DataMixture(jobs.TestCase):
    def setUp(self):
        super().setUp()
        (self.directory / "books").mkdir()
        for number in range(3):
            lines = sentences("abcdefgh ", 40, number)
            (self.directory / f"books/{number}.txt").write_text("\n".join(lines) + "\n")
        with gzip.open(self.directory / "news.jsonl.gz", "wt") as file:
            for number, line in enumerate(sentences("ABCDEFGH ", 60, 7)):
                file.write(json.dumps({"id": number, "text": line}) + "\n")
        (self.directory / "held-out.txt").write_text("\n".join(sentences("abcdefgh ", 30, 11)) + "\n")
        self.mixed = {"data.train": "[{path: 'books/*.txt', weight: 3}, {path: news.jsonl.gz, weight: 1}]",
                      "data.documents.sample_by": "line", "data.shuffle": "true", "data.validation": "held-out.txt",
                      "training.lr_scheduler.total_steps": 100}

    def train_mixed(self, directory, layout=Layout(1, 1), **settings):
        return self.train(directory, layout, {**self.mixed, **settings})

    def losses(self, directory):
        return [line["loss"] for line in self.run_at(directory).metrics()]

    def test_listed_files_are_concatenated(self):
        whole = b"".join((self.directory / f"books/{number}.txt").read_bytes() for number in range(3))
        (self.directory / "whole.txt").write_bytes(whole)
        self.train("one", settings={"data.train": "whole.txt", "data.validation": ""})
        self.train("three", settings={"data.train": "[books/0.txt, books/1.txt, books/2.txt]", "data.validation": ""})
        output = self.train("pattern", settings={"data.train": "books/*.txt", "data.validation": ""}).output
        self.assertIn(f"books/*.txt: {len(whole)} tokens; batches of 8 sequences that continue across steps, ", output)
        self.assertEqual(self.losses("three"), self.losses("one"))
        self.assertEqual(self.losses("pattern"), self.losses("one"))

    def test_weighted_mixture_is_shuffled_by_seed(self):
        output = self.train_mixed("run").output
        self.assertRegex(output, r"books/\*\.txt: \d+ tokens in 120 documents, weight 3; news\.jsonl\.gz: \d+ tokens in 60 "
                         r"documents, weight 1; batches of 8 sequences, documents shuffled\n")
        self.train_mixed("other", **{"run.seed": 9})
        self.assertNotEqual(self.losses("other"), self.losses("run"))

    def test_separate_documents_are_trained_and_evaluated(self):
        self.train_mixed("run", **{"data.documents.reset_attention_mask": "true"})
        found = json.loads(self.longspan("evaluate", "run", "--json").output)
        lines = (self.directory / "held-out.txt").read_text().splitlines()
        # The first token of each line is not predicted.
        self.assertEqual(found["num_tokens"], sum(len(line) - 1 for line in lines))
        self.assertAlmostEqual(found["loss"], self.run_at().metrics()[-1]["validation_loss"], delta=1e-5)

    def test_resumes_exactly_and_on_other_layouts(self):
        apart = {"data.documents.reset_attention_mask": "true", "data.validation": ""}
        for layout in LAYOUTS[:2]:
            whole, parts = f"whole-{layout.ranks}", f"parts-{layout.ranks}"
            self.train_mixed(whole, layout, **{**apart, "training.max_steps": 12})
            for steps in 5, 12:
                output = self.train_mixed(parts, layout, **{**apart, "training.max_steps": steps}).output
                self.assertNotIn("warning", output)
            self.assertEqual(self.run_at(parts).state(12), self.run_at(whole).state(12))
        for layout in LAYOUTS[1:]:
            with self.subTest(layout=str(layout)):
                parts = f"elastic-{layout}".replace(" ", "-")
                self.train_mixed(parts, **{**apart, "training.max_steps": 5})
                self.train_mixed(parts, layout, **{**apart, "training.max_steps": 12})
                for found, expected in zip(self.losses(parts), self.losses("whole-1"), strict=True):
                    self.assertAlmostEqual(found, expected, delta=1e-4)

    def test_changed_list_is_reported(self):
        self.train_mixed("run")
        # Other weights are a changed configuration, not a changed text.
        other = self.train_mixed("run", **{"training.max_steps": 9, "data.train": self.mixed["data.train"].replace("3", "2")})
        self.assertNotIn("differs from the text", other.output)
        (self.directory / "books/3.txt").write_text("another book\n")
        self.assertIn("differs from the text that the checkpoint was trained on",
                      self.train_mixed("run", **{"training.max_steps": 10}).output)
        shorter = self.train("run", settings={**self.mixed, "data.train": "[{path: 'books/*.txt', weight: 3}]",
                                              "training.max_steps": 11}, code=3)
        self.assertIn("restore data.train, data.shuffle", shorter.errors)

    def test_validation_covers_each_listed_file(self):
        self.train("run", settings={"data.train": "books/*.txt", "data.validation": "[held-out.txt, books/0.txt]",
                                    "training.validation.interval": 3})
        last = [line for line in self.run_at().metrics() if "validation_loss" in line][-1]
        each = [last["validation_loss:held-out.txt"], last["validation_loss:books/0.txt"]]
        self.assertTrue(min(each) <= last["validation_loss"] <= max(each))

    def test_rejects_invalid_lists(self):
        for number, (settings, code, message) in enumerate([
                ({"data.train": "nothing/*.txt"}, 3, "data.train: nothing/*.txt: no file matches"),
                ({"data.train": "[books/0.txt, nowhere.txt]"}, 3, "nowhere.txt: cannot be opened for reading: No such file"),
                ({"data.train": "[{path: books/0.txt, weight: 0}]"}, 2, "expected a weight above 0"),
                ({"data.train": "[{path: books/0.txt, wait: 1}]"}, 2, 'unknown field "wait"'),
                ({"data.train": "[{weight: 1}]"}, 2, "mapping without a path"),
                ({"data.train": "[]"}, 2, "found the list []"),
                ({"data.train": "[{path: books/0.txt, weight: 2}, books/1.txt]"}, 2, "data.train: 1 of 2 paths have a weight"),
                ({"data.validation": "[{path: books/0.txt, weight: 2}]"}, 2, "data.validation does not support weights"),
                ({"model.attention.layer_types": "[{kind: sliding_window}]"}, 2,
                 "found the list [{kind: sliding_window}] (contains a mapping)"),
                ({"run.task": "classification", "model.family": "encoder", "data.train": "[books/0.txt, books/1.txt]"}, 2,
                 "require run.task: language_modeling, found classification"),
                ({"data.documents.reset_attention_mask": "true", "model.attention.layer_types": "linear"}, 2, "linear")]):
            with self.subTest(settings=settings):
                for layout in LAYOUTS[:2]:
                    result = self.train(f"wrong-{number}-{layout.ranks}", layout, settings, code=code)
                    self.assertIn(message, result.errors)


if __name__ == "__main__":
    jobs.main()
