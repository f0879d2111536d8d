#!/usr/bin/env python3
"""Error messages: key, location and hint.

    tests/launch/remedies_test.py build/launch/longspan
"""

import json
import os
import re
import subprocess
import sys
import time
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs


class FileErrors(jobs.TestCase):
    def write(self, **sections):
        """Writes other.yaml, which is tiny.yaml with other keys; returns {key: line}."""
        text = json.dumps(jobs.merged(self.sections, sections), indent=1)
        (self.directory / "other.yaml").write_text(text)
        return {re.match(r' *"(\w+)"', line)[1]: number
                for number, line in enumerate(text.splitlines(), 1) if '": "' in line}

    def refusal(self, *arguments, code=3, command="train"):
        """Returns the error, which is equal on one rank and on two."""
        errors = [self.longspan(command, *arguments, ranks=ranks, code=code).errors for ranks in (1, 2)]
        for error in errors:
            self.assertEqual(error.count("longspan: "), 1, error)
            self.assertIn(errors[0], error)  # mpirun adds messages
        return errors[0]

    def missing(self, location, key, path, hint=""):
        return (f"longspan: {location}: {key}: {path}: cannot be opened for reading: No such file or directory; "
                f"check the current directory, where relative paths start: {os.path.realpath(self.directory)}{hint}\n")

    def test_missing_text_names_key_line_and_command(self):
        line = self.write(data={"train": "runs/corpora/kjv/train.txt"})["train"]
        self.assertEqual(self.refusal("other.yaml"),
                         self.missing(f"other.yaml:{line}:3", "data.train", "runs/corpora/kjv/train.txt",
                                      "; run launch/corpus kjv"))
        self.assertEqual(self.refusal("tiny.yaml", "--set", "data.validation=runs/corpora/it/validation.txt"),
                         self.missing("--set", "data.validation", "runs/corpora/it/validation.txt",
                                      "; run launch/corpus it.txt to make it from your file it.txt"))
        self.assertEqual(self.refusal("tiny.yaml", "--set", "data.train=/nowhere/a.txt"),
                         "longspan: --set: data.train: /nowhere/a.txt: cannot be opened for reading: No such file or "
                         "directory\n")

    def test_evaluate_names_key_of_missing_text(self):
        self.train(settings={"data.test": "gone.txt"})
        line = [text.strip().split(":")[0] for text in (self.directory / "run/config.yaml").read_text().splitlines()
                ].index("test") + 1
        self.assertEqual(self.refusal("run", "--split", "test", command="evaluate"),
                         self.missing(f"run/config.yaml:{line}:3", "data.test", "gone.txt"))
        self.assertIn("longspan: --data: gone.txt: cannot be opened",
                      self.refusal("run", "--data", "gone.txt", command="evaluate"))

    def test_output_dir_that_cannot_be_created_is_reported(self):
        line = self.write(run={"output_dir": "text.txt"})["output_dir"]
        self.assertRegex(self.refusal("other.yaml", code=2),
                         rf'\Alongspan: other.yaml:{line}:3: run.output_dir "text.txt" cannot be created: .*; check the '
                         rf"current directory, where relative paths start: {os.path.realpath(self.directory)}\n\Z")

    def test_missing_checkpoint_is_reported(self):
        line = self.write(checkpoint={"resume_from": "away/step-000000004"})["resume_from"]
        self.assertEqual(self.refusal("other.yaml"),
                         f"longspan: other.yaml:{line}:3: checkpoint.resume_from: away/step-000000004: no such "
                         "checkpoint; check the current directory, where relative paths start: "
                         f"{os.path.realpath(self.directory)}\n")

    def test_missing_config_is_reported(self):
        self.assertEqual(self.refusal("gone.yaml", code=2),
                         "longspan: gone.yaml: cannot be opened: No such file or directory; check the current "
                         f"directory, where relative paths start: {os.path.realpath(self.directory)}\n")

    def test_tilde_expands_to_home_directory(self):
        home = self.directory / "home"
        home.mkdir()
        jobs.write_text(home / "book.txt")
        self.write(run={"output_dir": "~/runs/one"}, data={"train": "~/book.txt"}, training={"max_steps": 1})
        with unittest.mock.patch.dict(os.environ, HOME=str(home)):
            self.longspan("train", "other.yaml", "--set", "data.validation=~/book.txt", ranks=2)
        self.assertEqual(self.run_at("home/runs/one").steps(), [1])
        self.assertIn(f"train: {home}/book.txt", (home / "runs/one/config.yaml").read_text())
        self.assertFalse((self.directory / "~").exists())


class RankErrors(jobs.TestCase):
    def test_error_names_commands_for_more_ranks(self):
        result = self.longspan("train", "tiny.yaml", "--set", "parallel.data_parallel_size=2", code=2)
        self.assert_one_sentence(result, "expected 2 ranks, found 1", '"longspan launch -n 2 -- ..."',
                                 '"mpirun -n 2 longspan ..."')
        result = self.longspan("train", "tiny.yaml", "--set", "parallel.tensor_parallel_size=4", code=2)
        self.assert_one_sentence(result, "expected a multiple of 4 ranks", "found 1", '"mpirun -n 4 longspan ..."')


class MemoryErrors(jobs.TestCase):
    def refusal(self, command, width, limit=None):
        """Returns the error, which appears within 20 s."""
        arguments = [command, "tiny.yaml", "--set", f"model.hidden_size={width}"]
        script = f'ulimit -v {limit or "unlimited"}; exec "$@"'
        begin = time.monotonic()
        result = subprocess.run(["bash", "-c", script, "-", self.program, *arguments], cwd=self.directory,
                                env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
                                timeout=jobs.MOST_SECONDS, capture_output=True, text=True, check=False)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(result.returncode, 2, result.stderr)
        return result.stderr

    def test_error_states_required_memory_and_hints(self):
        for width in 200000, 1000000, 1 << 24:
            with self.subTest(width=width):
                errors = self.refusal("train", width)
                self.assertRegex(errors, r"\Alongspan: a rank requires (more than )?\d+\.\d+ GB \(weights "
                                         r"[^;\n]*\), but only [^;\n]* memory free; [^\n]*smaller data.seq_length, "
                                         r"data.global_batch_size or model.hidden_size\n\Z")
                self.assertNotIn("ulimit", errors)
        self.assertRegex(self.refusal("plan", 1 << 24), r"requires more than \d+\.\d+ GB, which exceeds the "
                                                        r"address space of a process; use more ranks")

    def test_error_names_address_space_limit(self):
        self.assertRegex(self.refusal("plan", 200000, limit=8000000),
                         r'which exceeds the address space of a process \(ulimit -v allows 8\.19 GB\); use')


class ShortRuns(jobs.TestCase):
    def test_run_shorter_than_warmup_gives_warning(self):
        result = self.train(settings={"training.max_steps": 1})
        self.assertRegex(result.output + result.errors,
                         r"tiny.yaml:\d+:\d+: training.lr_scheduler.warmup_steps: expected at most training.max_steps = 1, found 2")
        self.assertEqual(self.run_at().steps(), [1])
        self.longspan("train", "tiny.yaml", "--set", "training.lr_scheduler.total_steps=1", code=2)


if __name__ == "__main__":
    jobs.main()
