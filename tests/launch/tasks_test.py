#!/usr/bin/env python3
"""Tagging, classification, behavior cloning and reinforcement learning: resuming, prediction, invalid data.

    tests/launch/tasks_test.py build/launch/longspan
"""

import json
import random
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout


def write_tags(path, sentences, seed):
    """Writes sentences with tags of persons and locations."""
    source = random.Random(seed)
    def sentence():
        words = []
        for _ in range(source.randint(1, 7)):
            words += source.choice([[("anna", "B-PER")], [("new", "B-LOC"), (source.choice(["york", "delhi"]), "I-LOC")],
                                    [(source.choice(["saw", "the", "house", "in"]), "O")]])
        return "".join(f"{word}\t{tag}\n" for word, tag in words)
    path.write_text("\n".join(sentence() for _ in range(sentences)))


def write_classes(path, texts, seed):
    source = random.Random(seed)
    words = {"good": ["fine", "great"], "bad": ["sad", "poor"], "odd": ["hm", "so"]}
    def line():
        label = source.choice(sorted(words))
        return label + "\t" + " ".join(source.choice(words[label] + ["the"]) for _ in range(source.randint(1, 9))) + "\n"
    path.write_text("".join(line() for _ in range(texts)))


class TestCase(jobs.TestCase):
    sections = {
        "run": {"output_dir": "run", "num_threads": 1},
        "model": {"family": "encoder", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "dropout": 0.1},
        "data": {"train": "train.txt", "validation": "validation.txt", "global_batch_tokens": 256, "max_length": 64},
        "training": {"max_steps": 8, "learning_rate": 0.01, "lr_scheduler": {"warmup_steps": 2}, "validation": {"interval": 4}},
        "precision": {"compute_dtype": "float64"},
        "checkpoint": {"save_interval": 4, "keep_latest": 3},
        "metrics": {"log_interval": 1, "log_timing": False},
    }

    def write(self, name, text):
        (self.directory / name).write_text(text)

    def refused(self, settings, *parts):
        """Checks that the data are rejected with one error and exit code 3."""
        self.assert_one_sentence(self.train("bad", settings={**self.task, **settings}, code=3), *parts)

    def assert_resumes_on_any_layout(self, names):
        """Compares a run on two ranks with runs resumed from step 4, on the same and other layouts."""
        def metrics_of(name):
            return [[line["validation_" + metric] for metric in names]
                    for line in self.run_at(name).metrics() if "validation_loss" in line]
        task = {**self.task, "training.lr_scheduler.type": "constant"}
        self.train("whole", Layout(2, 1), task)
        expected = metrics_of("whole")
        self.assertEqual(len(expected), 2)
        self.train("same", Layout(2, 1), {**task, "training.max_steps": 4})
        self.train("same", Layout(2, 1), task)
        self.assertEqual(self.run_at("same").metrics_bytes(), self.run_at("whole").metrics_bytes())
        self.assertEqual(self.run_at("same").state(8)["tensors"], self.run_at("whole").state(8)["tensors"])
        for name, layout in {"tensor": Layout(1, 2), "time": Layout(1, 2, context=2, sequence=True)}.items():
            self.train(name, Layout(2, 1), {**task, "training.max_steps": 4})
            self.train(name, layout, task)
            for one, other in zip(expected, metrics_of(name), strict=True):
                for a, b in zip(one, other, strict=True):
                    self.assertAlmostEqual(a, b, delta=1e-8 * abs(a))
        # evaluate matches the last validation.
        for ranks in 1, 2:
            measured = json.loads(self.longspan("evaluate", "whole", "--json", ranks=ranks).output)
            for metric, value in zip(names, expected[-1], strict=True):
                self.assertAlmostEqual(measured[metric], value, delta=1e-8 * abs(value))


class Tagging(TestCase):
    def setUp(self):
        super().setUp()
        write_tags(self.directory / "train.txt", 90, 1)
        write_tags(self.directory / "validation.txt", 11, 2)
        self.task = {"run.task": "tagging", "model.use_crf": True, "model.position_embedding_type": "relative",
                     "model.relative_attention_max_distance": 4}

    def test_resumes_on_any_layout(self):
        self.assert_resumes_on_any_layout(["loss", "accuracy", "span_precision", "span_recall", "span_f1"])

    def test_predicts_tags_of_lines(self):
        self.train(settings={**self.task, "training.max_steps": 60, "checkpoint.save_interval": 0})
        self.write("lines.txt", "anna saw new york\n\nthe   house\n")
        for ranks in 1, 2:
            result = self.longspan("generate", "run", "--input", "lines.txt", ranks=ranks)
            self.assertEqual(result.output, "B-PER O B-LOC I-LOC\n\nO O\n")

    def test_truncated_words_count_as_errors(self):
        # With one tag, each word that is read is correct: 4 of 30.
        self.write("train.txt", "go\tO\nin\tO\n")
        self.write("validation.txt", "".join(f"a{n}\tO\n" for n in range(10)) + "\n" + "".join(f"b{n}\tO\n" for n in range(20)))
        settings = {**self.task, "data.max_length": 5, "data.overlong_examples": "truncate", "training.max_steps": 4}
        for layout in Layout(1, 1), Layout(2, 1), Layout(1, 2, context=2, sequence=True):
            name = f"cut-{layout.ranks}"
            log = self.train(name, layout, settings).output
            line = self.run_at(name).metrics()[-1]
            self.assertAlmostEqual(line["validation_accuracy"], 100 * 4 / 30)
            self.assertEqual((line["validation_truncated"], line["validation_left_out"]), (2, 26))
            self.assertIn("accuracy 13.33%", log)
            self.assertIn("; 2 truncated to data.max_length = 5 tokens; 26 of 30 tags not read (counted as errors, excluded from the loss)", log)
            self.assertIn("26 of 30 tags not read", self.longspan("evaluate", name).output)

    def test_counts_unseen_tags_of_truncated_words(self):
        self.write("train.txt", "go\tO\nin\tO\n")
        self.write("validation.txt", "go\tO\nin\tO\nit\tNEW\n\nup\tODD\nin\tO\n")
        settings = {**self.task, "data.max_length": 5, "data.overlong_examples": "truncate", "training.max_steps": 4}
        for layout in Layout(1, 1), Layout(2, 1), Layout(1, 2, context=2, sequence=True):
            name = f"unseen-{layout.ranks}-{layout.context}"
            log = self.train(name, layout, settings).output
            line = self.run_at(name).metrics()[-1]
            self.assertEqual((line["validation_unseen_tags"], line["validation_left_out"]), (2, 1))
            self.assertIn('; unseen in training: 2 of 5 tags ("NEW", "ODD")', log)
            # With one training tag, known targets have the loss 0.
            self.assertAlmostEqual(line["validation_loss"], 0)

    def test_unseen_targets_have_no_loss(self):
        self.write("train.txt", "go\tO\nin\tB-PER\n")
        # Truncation removes the only known tag.
        self.write("validation.txt", "up\tNEW\nit\tNEW\nin\tO\n")
        settings = {**self.task, "data.max_length": 5, "data.overlong_examples": "truncate", "training.max_steps": 4}
        for layout in Layout(1, 1), Layout(2, 1):
            name = f"none-{layout.ranks}"
            log = self.train(name, layout, settings).output
            line = self.run_at(name).metrics()[-1]
            self.assertNotIn("validation_loss", line)
            self.assertEqual((line["validation_accuracy"], line["validation_unseen_tags"]), (0, 2))
            self.assertIn("validation loss undefined: the tags of all sampled sentences are missing in training", log)
            self.assertIn("loss undefined", self.longspan("evaluate", name).output)
            self.assertNotIn("loss", json.loads(self.longspan("evaluate", name, "--json").output))
            self.assertNotIn("validation loss", self.longspan("inspect", name).output)

    def test_unseen_tag_keeps_span_scheme(self):
        self.write("train.txt", "anna\tB-PER\nlee\tE-PER\nrome\tS-LOC\nis\tO\n")
        self.write("validation.txt", "anna\tB-PER\nlee\tL-PER\nis\tO\n")
        self.train(settings={**self.task, "training.max_steps": 4})
        self.assertIn("validation_span_f1", self.run_at().metrics()[-1])
        self.assertIn("span_f1", json.loads(self.longspan("evaluate", "run", "--json").output))

    def test_warns_of_more_tags_than_words(self):
        self.write("train.txt", "A\t1\nC\t2\nG\t3\nT\t4\nA\t5\nC\t6\n")
        self.write("validation.txt", "A\t1\nA\t2\nA\t3\n")
        for layout in Layout(1, 1), Layout(2, 1):
            log = self.train(f"dna-{layout.ranks}", layout, {**self.task, "training.max_steps": 4}).output
            self.assertEqual(log.count("found 6 labels for 4 different words; swap the columns if their order is reversed"), 1)
            self.assertNotIn("validation.txt: expected", log)
            self.longspan("evaluate", f"dna-{layout.ranks}", "--data", "validation.txt")

    def test_tags_without_spans_have_no_span_f1(self):
        self.write("train.txt", "a\tDT\ndog\tNN\n\nruns\tVB\n")
        self.write("validation.txt", "dog\tNN\n")
        self.train(settings={**self.task, "training.max_steps": 4})
        measured = self.run_at().metrics()[-1]
        self.assertIn("validation_accuracy", measured)
        self.assertNotIn("validation_span_f1", measured)

    def test_reads_conllu_columns(self):
        line = "{}\t{}\tlemma\t{}\t{}\t_\t0\troot\t_\t_\n"
        self.write("train.txt", "# a comment\n" + line.format(1, "dogs", "NOUN", "NNS") + line.format(2, "run", "VERB", "VBP"))
        self.write("validation.txt", line.format(1, "dogs", "NOUN", "NNS"))
        for columns, first in {"conllu_upos": "NOUN", "conllu_xpos": "NNS"}.items():
            self.train(columns, settings={**self.task, "data.tag_format": columns, "training.max_steps": 4})
            labels = json.loads(self.run_at(columns).state(4)["scalars"]["data/labels"])["labels"]
            self.assertEqual(labels[0], first)
        self.write("validation.txt", line.format(1, "dogs", "NOUN", "NNS").replace("\t_\n", "\n"))
        self.refused({"data.tag_format": "conllu_upos"}, "validation.txt:1: expected 10 tab-separated columns of CoNLL-U, found 9")

    def test_rejects_invalid_files(self):
        self.write("validation.txt", "anna\tB-PER\nnew B-LOC\n")
        self.refused({}, "validation.txt:2")
        self.write("validation.txt", "anna\tB-PERS\n")
        self.refused({}, "validation.txt:1", 'unknown tag "B-PERS", expected one of the 4 of training; did you mean "B-PER"?')
        self.write("validation.txt", "internationalisation\tO\n")
        self.refused({"data.max_length": 8, "model.max_position_embeddings": 16}, "train.txt:")

    def test_unseen_validation_tags_count_as_errors(self):
        """Reference values: accuracy_score, f1_score(average="macro") of scikit-learn and f1_score of seqeval."""
        known = "anna\tB-PER\nsaw\tO\nnew\tB-LOC\nyork\tI-LOC\n\n"
        self.write("train.txt", known + "the\tO\nanna\tB-PER\n \nsaw\tO\n")
        self.write("validation.txt", known + "the\tO\nanna\tB-CITY\n \nsaw\tEVENT\n")
        self.write("known.txt", known)
        for readout, is_crf in ("softmax", False), ("crf", True):
            task = {**self.task, "model.use_crf": is_crf, "model.dropout": 0, "training.max_steps": 60, "training.learning_rate": 0.02,
                    "training.validation.interval": 60, "checkpoint.save_interval": 0}
            self.train(readout, settings=task)
            # Predictions equal the training tags: B-PER O B-LOC I-LOC, O B-PER, O.
            last = self.run_at(readout).metrics()[-1]
            self.assertEqual(last["validation_unseen_tags"], 2)
            self.assertAlmostEqual(last["validation_accuracy"], 100 * 5 / 7)
            # B-LOC and I-LOC 1, B-PER 2/3, O 4/5, B-CITY and EVENT 0.
            self.assertAlmostEqual(last["validation_macro_f1"], 100 * (2 + 2 / 3 + 4 / 5) / 6)
            # Correct: PER, LOC. Predicted: 2 PER, LOC. Reference: PER, LOC, CITY, VENT.
            self.assertAlmostEqual(last["validation_span_f1"], 100 * 4 / 7)
            log = (self.run_at(readout).path / "log.txt").read_text()
            self.assertIn('; unseen in training: 2 of 7 tags ("B-CITY", "EVENT"), counted as errors and excluded from the loss', log)
            for ranks in 1, 2:
                measured = json.loads(self.longspan("evaluate", readout, "--json", ranks=ranks).output)
                for metric in "loss", "accuracy", "macro_f1", "span_f1", "unseen_tags":
                    self.assertAlmostEqual(measured[metric], last["validation_" + metric], msg=metric)
            seen = json.loads(self.longspan("evaluate", readout, "--data", "known.txt", "--json").output)
            self.assertNotIn("unseen_tags", seen)
            self.assertEqual(seen["span_f1"], 100)
            self.assertLess(last["validation_loss"], 1)

    def test_reports_why_tags_have_no_span_f1(self):
        self.write("train.txt", "anna\tB-PER\nsmith\tE-PER\nrome\tU-LOC\nis\tO\n")
        self.write("validation.txt", "anna\tB-PER\n")
        result = self.train(settings={**self.task, "training.max_steps": 4})
        self.assertNotIn("validation_span_f1", self.run_at().metrics()[-1])
        self.assertIn("4 tags (no span F1: tags mix L or U of BILOU with E or S of BIOES)", result.output + result.errors)

    def test_resume_rejects_changed_tags(self):
        self.train(settings={**self.task, "training.max_steps": 4})
        text = (self.directory / "train.txt").read_text()
        self.write("train.txt", text + "\nparis\tB-CITY\n")
        result = self.train(settings=self.task, code=3)
        self.assertIn("expected the 4 tags of the checkpoint, but train.txt has 5 (new \"B-CITY\")", result.errors)


class BehaviorCloning(TestCase):
    def setUp(self):
        super().setUp()
        self.write("train.txt", "numpad\nsteps 20\n")
        self.write("validation.txt", "numpad side 3 steps 30")
        self.task = {"run.task": "behavior_cloning", "model.family": "transformer_xl", "model.norm.position": "pre",
                     "model.residual.type": "gated",
                     "model.mem_len": 12, "data.global_batch_size": 4, "data.seq_length": 8, "training.validation.max_batches": 32}

    def test_resumes_on_any_layout(self):
        self.assert_resumes_on_any_layout(["loss", "accuracy", "success_rate", "episodes"])

    def test_predicts_actions_of_lines(self):
        self.train(settings={**self.task, "training.max_steps": 4})
        self.write("lines.txt", "*abA\n")
        actions = self.longspan("generate", "run", "--input", "lines.txt").output
        self.assertRegex(actions, r"^([A-I] ){3}[A-I]\n$")

    def test_rejects_incompatible_environments(self):
        self.write("validation.txt", "t_maze length 9")
        self.refused({}, "validation.txt: expected the training actions A, B", "found left, right in a T-maze of length 9")
        self.write("train.txt", "numpad side 12")
        self.refused({}, "train.txt: side: expected a number from 2 to 5, found \"12\"")


class Classification(TestCase):
    def setUp(self):
        super().setUp()
        write_classes(self.directory / "train.txt", 90, 1)
        write_classes(self.directory / "validation.txt", 13, 2)
        self.task = {"run.task": "classification", "model.pooling": "attention"}

    def test_resumes_on_any_layout(self):
        self.assert_resumes_on_any_layout(["loss", "accuracy", "macro_f1", "precision/good", "recall/good", "f1/good"])

    def test_rejects_invalid_files(self):
        self.write("validation.txt", "good\tfine\ngood fine\n")
        self.refused({}, "validation.txt:2", "expected a label, a tab and a text, found no tab")
        self.write("validation.txt", "goode\tfine\n")
        self.refused({}, "validation.txt:1", 'unknown label "goode", expected one of the 3 of training; did you mean "good"?')
        self.write("validation.txt", "good\t\n")
        self.refused({}, "validation.txt:1", "has no text after the tab")
        write_classes(self.directory / "validation.txt", 3, 2)
        self.refused({"data.max_length": 8}, "train.txt:", "tokens")

    def test_partial_validation_samples_all_classes(self):
        # The longest texts, first in batches of similar length, all have one class.
        source = random.Random(1)
        texts = [("good", "fine " * source.randint(8, 12)) for _ in range(60)] + [("bad", "sad " * source.randint(1, 4)) for _ in range(60)]
        self.write("validation.txt", "".join(f"{label}\t{text.strip()}\n" for label, text in texts))
        settings = {**self.task, "training.validation.max_batches": 6, "training.max_steps": 4}
        found = {}
        for layout in Layout(1, 1), Layout(2, 1):
            log = self.train(f"part-{layout.ranks}", layout, settings).output
            line = found[layout.ranks] = self.run_at(f"part-{layout.ranks}").metrics()[-1]
            self.assertRegex(log, r"validation loss .*; \d+ of 120 examples \(\d[\d.]*%\)")
            self.assertGreater(line["validation_fraction"], 0.1)
            self.assertLess(line["validation_fraction"], 1)
            read = round(120 * line["validation_fraction"])
            self.assertAlmostEqual(line["validation_fraction"], read / 120)
        for metric in "validation_loss", "validation_accuracy", "validation_fraction":
            self.assertAlmostEqual(found[1][metric], found[2][metric], delta=1e-8)
        # The sample contains both classes.
        self.assertNotIn(found[1]["validation_accuracy"], (0, 100))
        self.train("other", settings={**settings, "run.seed": 2, "training.max_steps": 1})
        self.train("whole", settings={**self.task, "training.max_steps": 4})
        self.assertNotIn("validation_fraction", self.run_at("whole").metrics()[-1])

    def test_swapped_columns_are_reported(self):
        lines = [line.split("\t") for line in (self.directory / "train.txt").read_text().splitlines()]
        self.write("swapped.txt", "".join(f"{text}\t{label}\n" for label, text in lines))
        for layout in Layout(1, 1), Layout(2, 1):
            result = self.train("bad", layout, {**self.task, "data.train": "swapped.txt"}, code=3)
            self.assert_one_sentence(result, "swapped.txt: expected a class, a tab and a text on each line, found ",
                                     "labels for 3 different texts; swap the columns")
        self.refused({"data.validation": "swapped.txt"}, "swapped.txt:1: expected a class, a tab and a text, found a text, a tab and "
                     "the class ")
        self.write("own.txt", "".join(f"id{number}\t{text}\n" for number, (_, text) in enumerate(lines)))
        log = self.train("own", settings={**self.task, "data.train": "own.txt", "data.validation": "", "training.max_steps": 4}).output
        self.assertRegex(log, r"warning: own.txt has 90 classes for 90 texts, most with a single example")

    def test_predicts_classes_of_lines(self):
        self.train(settings={**self.task, "training.max_steps": 60, "checkpoint.save_interval": 0,
                             "model.position_embedding_type": "learned",
                             "data.overlong_examples": "truncate"})
        self.write("lines.txt", "fine fine great\n\nsad poor the sad\nso hm the\n")
        for ranks in 1, 2:
            result = self.longspan("generate", "run", "--input", "lines.txt", "--output", "labels.txt", ranks=ranks)
            self.assertEqual((self.directory / "labels.txt").read_text(), "good\n\nbad\nodd\n")
        self.write("lines.txt", "fine\n" + "fine " * 99 + "\n")
        result = self.longspan("generate", "run", "--input", "lines.txt", code=3)
        self.assert_one_sentence(result, "lines.txt:2: expected at most ")
        for command in ["evaluate", "run"], ["generate", "run", "--input", "lines.txt"]:
            result = self.longspan(*command, "--beam", 2, code=2)
            self.assert_one_sentence(result, f"longspan {command[0]}: --beam", "require run.task: translation, found classification")

    def test_unseen_validation_classes_count_as_errors(self):
        text = (self.directory / "validation.txt").read_text()
        self.train("seen", settings={**self.task, "model.dropout": 0})
        self.write("validation.txt", text + "new\tfine\n")
        self.train("unseen", settings={**self.task, "model.dropout": 0})
        seen, unseen = (self.run_at(name).metrics()[-1] for name in ("seen", "unseen"))
        self.assertEqual(unseen["validation_unseen_classes"], 1)
        self.assertAlmostEqual(unseen["validation_loss"], seen["validation_loss"])
        self.assertAlmostEqual(unseen["validation_accuracy"], seen["validation_accuracy"] * 13 / 14)
        self.assertEqual(unseen["validation_recall/new"], 0)
        self.assertIn('; unseen in training: 1 of 14 texts by their class ("new"), counted as errors', (self.run_at("unseen").path / "log.txt").read_text())

    def test_rejects_token_budget_below_longest_line(self):
        self.refused({"data.global_batch_tokens": 8}, "data.global_batch_tokens")

    def test_resume_rejects_changed_classes(self):
        self.train(settings={**self.task, "training.max_steps": 4})
        text = (self.directory / "train.txt").read_text()
        self.write("train.txt", text.replace("odd\t", "bad\t"))
        self.write("validation.txt", "good\tfine\n")
        result = self.train(settings=self.task, code=3)
        self.assertIn("expected the 3 classes of the checkpoint, but train.txt has 2 (missing \"odd\")", result.errors)

    def test_rejects_tokenizers_trained_on_labels(self):
        for tokenizer, part in {"char": "does not support char, whose vocabulary would include the classes",
                                "sentencepiece": "run longspan tokenizer train TEXT --output FILE.model"}.items():
            result = self.train(settings={**self.task, "data.tokenizer.type": tokenizer}, code=2)
            self.assertIn(part, result.errors)

    def test_rejects_options_of_other_tasks(self):
        result = self.train(settings={**self.task, "data.train_target": "other.txt"}, code=2)
        self.assertIn("data.train_target requires run.task: translation, found classification", result.errors)
        result = self.train(settings={**self.task, "run.task": "language_modeling"}, code=2)
        self.assertIn("encoder requires run.task: tagging or classification, found language_modeling", result.errors)
        result = self.train(settings={**self.task, "model.attention.layer_types": "lsh"}, code=2)
        self.assertIn("lsh does not support the padded batches", result.errors)

    def test_plan_lists_layouts(self):
        for task in self.task, {"run.task": "tagging", "model.use_crf": True, "data.train": "tags.txt"}:
            write_tags(self.directory / "tags.txt", 9, 1)
            result = self.longspan("plan", "tiny.yaml", "--ranks", 4, *jobs.flat({**task, "parallel.data_parallel_size": 4}))
            self.assertIn("with reserve", result.output)
            self.assertIn("layouts of 4 ranks", result.output)


class ReinforcementLearning(TestCase):
    def setUp(self):
        super().setUp()
        for name in "train.txt", "validation.txt":
            self.write(name, "memory_maze side 3 steps 9\n")
        # A rollout has 6 steps: step 4 is within one, step 6 between two.
        self.task = {"run.task": "reinforcement_learning", "model.family": "transformer_xl", "model.residual.type": "gated",
                     "model.norm.position": "pre", "model.mem_len": 12, "model.dropout": 0, "data.global_batch_size": 8,
                     "data.seq_length": 8,
                     "ppo.num_epochs": 3, "ppo.num_minibatches": 2, "training.lr_scheduler.type": "constant"}

    def test_resumes_on_any_layout(self):
        def metrics_of(name):
            return [[line[key] for key in sorted(line) if key != "tokens"] for line in self.run_at(name).metrics()]
        self.train("whole", Layout(2, 1), self.task)
        expected = metrics_of("whole")
        self.assertIn("success_rate", self.run_at("whole").metrics()[-1])
        for steps in 4, 6:
            name = f"same-{steps}"
            self.train(name, Layout(2, 1), {**self.task, "training.max_steps": steps})
            self.train(name, Layout(2, 1), self.task)
            # The metrics also contain the validation at the stop.
            self.assertEqual(self.run_at(name).state(8)["tensors"], self.run_at("whole").state(8)["tensors"])
            for one, other in zip(self.run_at("whole").metrics(), self.run_at(name).metrics(), strict=True):
                for key in one:
                    self.assertEqual(one[key], other[key])
        for name, layout in {"tensor": Layout(1, 2), "time": Layout(1, 2, context=2, sequence=True)}.items():
            self.train(name, Layout(2, 1), {**self.task, "training.max_steps": 4})
            self.train(name, layout, self.task)
            for one, other in zip(expected, metrics_of(name), strict=True):
                for a, b in zip(one, other, strict=True):
                    self.assertAlmostEqual(a, b, delta=1e-8 * max(1, abs(a)))
        last = self.run_at("whole").metrics()[-1]
        for ranks in 1, 2:
            measured = json.loads(self.longspan("evaluate", "whole", "--json", ranks=ranks).output)
            for metric in "episode_reward_mean", "success_rate", "policy_entropy", "episodes":
                self.assertAlmostEqual(measured[metric], last["validation_" + metric], delta=1e-8)

    def test_plan_predicts_peak_memory(self):
        for groups in 1, 4:
            task = {**self.task, "precision.compute_dtype": "float32", "model.hidden_size": 32, "model.mem_len": 48,
                    "data.global_batch_size": 32,
                    "data.seq_length": 16, "ppo.num_minibatches": groups, "checkpoint.save_interval": 0, "metrics.log_timing": True,
                    "training.validation.interval": 0, "training.max_steps": 15 * groups}
            self.train(f"planned-{groups}", settings=task)
            # The last line follows the final validation, which the plan does not include.
            held = self.run_at(f"planned-{groups}").metrics()[-2]["peak_memory_bytes"]
            planned = self.longspan("plan", "tiny.yaml", *jobs.flat(task)).output
            megabytes = float(re.search(r"peak +([0-9.]+) MB", planned)[1])
            self.assertAlmostEqual(1e6 * megabytes, held, delta=0.1 * held)

    def test_rejects_incompatible_settings(self):
        def refused(settings, *parts):
            result = self.train("bad", settings={**self.task, **settings}, code=2)
            for part in parts:
                self.assertIn(part, result.errors)
        refused({"ppo.num_minibatches": 3}, "ppo.num_minibatches: expected a divisor of the 8 environments")
        refused({"model.adaptive_span.type": "adaptive"}, "model.adaptive_span.type: adaptive cannot be combined with run.task: reinforcement_learning; set it to none")
        refused({"model.dropout": 0.1, "model.attention.dropout": 0.2}, "model.dropout: 0.1 cannot be combined with run.task: reinforcement_learning",
                "model.attention.dropout: 0.2 cannot be combined with run.task: reinforcement_learning", "set it to 0")
        refused({"data.tokenizer.type": "char"}, "data.tokenizer.type: expected byte with run.task: reinforcement_learning")
        refused({"model.family": "encoder"}, "encoder requires run.task: tagging or classification, found reinforcement_learning")
        self.write("validation.txt", "t_maze\n")
        self.refused({}, "expected the training actions down, left, right, up", "found left, right")


if __name__ == "__main__":
    jobs.main()
