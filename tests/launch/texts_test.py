#!/usr/bin/env python3
"""Long texts, unknown characters, prompts, and compressed or piped texts.

    tests/launch/texts_test.py build/launch/longspan
"""

import bz2
import gzip
import json
import lzma
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout


class LongText(jobs.TestCase):
    """A character vocabulary requires a full read. The file is sparse: it takes minutes to read and no disk space."""

    settings = {"data.tokenizer.type": "char", "data.train": "long.txt"}

    def setUp(self):
        super().setUp()
        with open(self.directory / "long.txt", "wb") as file:
            file.truncate(2 ** 35)

    def assert_stopped(self, job, text):
        begin = time.monotonic()
        result = job.wait()
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(result.code, 75, result.output + result.errors)
        self.assert_one_sentence(result, f"stopped as requested while reading {text} (",
                                 "before the first step: nothing to save")

    def wait_for_reading(self, job):
        """Waits for the first progress message."""
        shown = jobs.until(lambda: re.search(r"(?m)^Reading long.txt: \d+% of 34.36 GB$", job.output()) or job.ended())
        self.assertTrue(shown, job.output() + job.errors())

    def test_reports_progress_and_stops_at_signal(self):
        job = self.start_training(settings=self.settings)
        self.wait_for_reading(job)
        job.signal(signal.SIGTERM)
        self.assert_stopped(job, "long.txt")
        # No run directory is created.
        self.assertFalse(self.run_at().path.exists())

    def test_signal_to_one_rank_stops_all(self):
        for which in "mpirun", "one":
            with self.subTest(which=which):
                job = self.start_training(f"run-{which}", Layout(2, 1), self.settings)
                self.wait_for_reading(job)
                job.signal(signal.SIGUSR1, which)
                self.assert_stopped(job, "long.txt")
                self.assertFalse(self.run_at(f"run-{which}").path.exists())

    def test_stopped_read_keeps_earlier_checkpoint(self):
        characters = {"data.tokenizer.type": "char", "data.tokenizer.allow_unk": True}
        self.train(settings=characters)
        job = self.start_training(settings={**characters, "training.max_steps": 12, "data.validation": "long.txt"})
        self.wait_for_reading(job)
        job.signal(signal.SIGUSR1)
        self.assert_stopped(job, "long.txt")
        result = self.train(settings={**characters, "training.max_steps": 12})
        self.assertIn("at step 8", result.output)
        self.assertEqual(self.run_at().steps()[-1], 12)


class UnknownCharacters(jobs.TestCase):
    settings = {"data.tokenizer.type": "char", "data.tokenizer.allow_unk": True, "data.validation": "other.txt"}

    def setUp(self):
        super().setUp()
        (self.directory / "other.txt").write_text("the 漢字 said unto é . " * 20)
        (self.directory / "known.txt").write_text("the lord said unto moses . " * 20)

    def test_loss_includes_cost_of_unknown_characters(self):
        output = self.train(settings=self.settings).output
        self.assertRegex(output, r"step 8: validation loss .* bits per byte; 60 of 419 tokens \(14.3%\) are unknown characters")
        last = self.run_at().metrics()[-1]
        self.assertEqual(last["validation_unk_tokens"], 60)
        found = json.loads(self.longspan("evaluate", "run", "--json").output)
        self.assertEqual(found["unk_tokens"], 60)
        self.assertAlmostEqual(found["loss"], last["validation_loss"], delta=1e-5)
        known = len(set((self.directory / "text.txt").read_text()))
        self.assertGreater(found["loss"] * found["num_tokens"], 60 * math.log(1112064 - known))
        self.assertAlmostEqual(found["bits_per_byte"], found["loss"] * found["num_tokens"] / found["num_bytes"] / math.log(2), delta=1e-9)
        for ranks in 2, 4:
            again = json.loads(self.longspan("evaluate", "run", "--json", ranks=ranks).output)
            self.assertEqual(again["unk_tokens"], 60)
            self.assertAlmostEqual(again["loss"], found["loss"], delta=1e-5)
        self.assertIn("; 60 of 419 tokens (14.3%) are unknown characters\n", self.longspan("evaluate", "run").output)
        self.assertNotIn("unk_tokens", self.longspan("evaluate", "run", "--data", "known.txt").output)


class EndOfText(jobs.TestCase):
    documents = {"data.documents.sample_by": "line", "data.documents.end_token": "0", "training.max_steps": 60,
                 "training.learning_rate": 0.03,
                 "data.tokenizer.type": "byte"}

    def test_ends_generation(self):
        (self.directory / "text.txt").write_text("abcd\n" * 3000)
        self.train(settings=self.documents)
        for ranks in 1, 2:
            result = self.longspan("generate", "run", "--prompt", "ab", "--max-new-tokens", 200, "--temperature", 0, ranks=ranks)
            self.assertEqual(result.output, "abcd\n")
            # Without a prompt, generation starts a document.
            result = self.longspan("generate", "run", "--max-new-tokens", 200, "--temperature", 0, "--num-samples", 2, ranks=ranks)
            self.assertEqual(result.output, "abcd\n\nabcd\n")


class Prompts(jobs.TestCase):
    def setUp(self):
        super().setUp()
        self.make_once(self.train)

    def generate(self, *arguments, ranks=1, code=0):
        return self.longspan("generate", "run", "--max-new-tokens", "12", *arguments, ranks=ranks, code=code)

    def test_rejects_too_large_file_before_reading(self):
        for size, text in (100_000_000, "100.0 MB"), (50_000_000_000, "50.00 GB"):
            with open(self.directory / "long.txt", "wb") as file:
                file.truncate(size)
            for ranks in 1, 2:
                with self.subTest(size=size, ranks=ranks):
                    begin = time.monotonic()
                    result = self.generate("--prompt-file", "long.txt", ranks=ranks, code=3)
                    self.assertLess(time.monotonic() - begin, 20)
                    self.assert_one_sentence(result, f"long.txt: expected a prompt of at most 67.1 MB (64 MiB), found {text}")

    def test_prompt_file_equals_prompt_option(self):
        words = "the lord said unto moses and " * 50
        (self.directory / "words.txt").write_text(words)
        for arguments in [["--num-samples", "2"], ["--mem-len", "0"], ["--seq-length", "7"]]:
            with self.subTest(arguments=arguments):
                expected = self.generate("--prompt", words, *arguments).output
                self.assertTrue(expected.startswith(words))
                self.assertEqual(self.generate("--prompt-file", "words.txt", *arguments).output, expected)
                self.assertEqual(self.generate("--prompt-file", "words.txt", *arguments, ranks=2).output, expected)

    def test_default_prompt_without_newline_in_vocabulary_warns(self):
        for number, (text, begin) in enumerate([("abc abd " * 500, " "), ("abcabd" * 600, "a")]):
            (self.directory / "flat.txt").write_text(text)
            self.train(f"flat-{number}", settings={"data.train": "flat.txt", "data.tokenizer.type": "char", "training.max_steps": 1})
            for ranks in 1, 2:
                result = self.longspan("generate", f"flat-{number}", "--max-new-tokens", "5", ranks=ranks)
                self.assertEqual(len(result.output), 7)
                self.assertTrue(result.output.startswith(begin))
                self.assertIn(f'the vocabulary has no newline: the text begins with "{begin}"; pass --prompt', result.errors)
        self.assertTrue(self.generate().output.startswith("\n"))

    def test_token_ids_require_prompt(self):
        (self.directory / "ids.bin").write_bytes(bytes([1, 0, 2, 0, 3, 0]) * 800)
        ids = {"data.format": "tokens", "data.train": "ids.bin", "data.tokenizer.type": "none",
               "data.tokenizer.vocab_size": 5, "training.max_steps": 1}
        self.train("ids", settings=ids)
        result = self.longspan("generate", "ids", code=2)
        self.assert_one_sentence(result, "data.tokenizer.type: none requires a prompt", '--prompt "17 4"')
        self.train("ended", settings={**ids, "data.documents.end_token": "3"})
        self.longspan("generate", "ended", "--max-new-tokens", "3")

    def test_largest_prompt_takes_little_memory(self):
        with open(self.directory / "long.txt", "wb") as file:
            file.write(b"x" * 2 ** 26)

        def kilobytes(name):
            script = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); "
                      "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
            result = subprocess.run([sys.executable, "-c", script, self.program, "generate", "run", "--max-new-tokens", "2",
                                     "--mem-len", "0", "--prompt-file", name], cwd=self.directory, capture_output=True,
                                    text=True, timeout=jobs.MOST_SECONDS, check=True)
            return int(result.stdout)
        self.assertLess(kilobytes("long.txt"), kilobytes("text.txt") + 1.25 * 2 ** 16)

    def test_rejects_file_that_is_not_utf_8(self):
        self.train("characters", settings={"data.tokenizer.type": "char"})
        (self.directory / "latin.txt").write_bytes(b"lord\xe9")
        self.assert_one_sentence(self.longspan("generate", "characters", "--prompt-file", "latin.txt", code=3),
                                 "latin.txt: byte 4: ")


MARK = b"\xef\xbb\xbf"


class StoredTexts(jobs.TestCase):
    """A text that is compressed, has a byte order mark, or comes from a pipe."""

    def shell(self, command, code=0):
        result = subprocess.run(["bash", "-c", command.replace("longspan", self.program)], cwd=self.directory,
                                capture_output=True, text=True, timeout=jobs.MOST_SECONDS, check=False)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def test_storage_does_not_change_tokens(self):
        text = (self.directory / "text.txt").read_bytes()
        for name, content in {"marked.txt": MARK + text, "packed": gzip.compress(MARK + text)}.items():
            (self.directory / name).write_bytes(content)
        self.train("plain", settings={"data.validation": "text.txt"})
        for name in "marked.txt", "packed":
            self.train(name + "-run", settings={"data.train": name, "data.validation": name})
            self.assertEqual([line["loss"] for line in self.run_at(name + "-run").metrics()],
                             [line["loss"] for line in self.run_at("plain").metrics()])
        expected = self.longspan("evaluate", "plain", "--json").output
        metrics = json.loads(expected)
        for source in "marked.txt", "packed", "<(cat text.txt)", "<(cat packed)", "/dev/stdin < text.txt":
            with self.subTest(source=source):
                found = json.loads(self.shell(f"longspan evaluate plain --json --data {source}").stdout)
                self.assertEqual((found["loss"], found["bits_per_byte"]), (metrics["loss"], metrics["bits_per_byte"]))
        found = json.loads(self.shell("cat text.txt | longspan evaluate plain --json --data /dev/stdin").stdout)
        self.assertEqual(found["loss"], metrics["loss"])

    def test_reads_lines_from_pipes_and_compressed_files(self):
        lines = "good\tfine\nbad\tawful\n" * 20
        (self.directory / "classes.gz").write_bytes(gzip.compress(MARK + lines.encode()))
        (self.directory / "new.txt").write_text("fine\nawful\nfine\n")
        (self.directory / "new.gz").write_bytes(gzip.compress(MARK + b"fine\nawful\nfine\n"))
        sections = {**self.sections, "model": {"family": "encoder", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2},
                    "data": {"train": "classes.gz", "validation": "classes.gz", "global_batch_tokens": 256, "max_length": 64}}
        (self.directory / "tiny.yaml").write_text(json.dumps(sections))
        self.train("classes", settings={"run.task": "classification"})
        expected = self.longspan("generate", "classes", "--input", "new.txt").output
        self.assertEqual(len(expected.splitlines()), 3)
        for command in ("longspan generate classes --input new.gz", "longspan generate classes --input - < new.gz",
                        "cat new.txt | longspan generate classes --input /dev/stdin",
                        "longspan generate classes --input <(cat new.gz)", "longspan generate classes --input - < new.txt"):
            with self.subTest(command=command):
                self.assertEqual(self.shell(command).stdout, expected)
        measured = json.loads(self.shell("longspan evaluate classes --json --data <(cat classes.gz)").stdout)
        self.assertEqual(measured["loss"], json.loads(self.longspan("evaluate", "classes", "--json").output)["loss"])

    def test_rejects_unsupported_formats(self):
        for name, content, part in (("text.bz2", bz2.compress(b"text " * 100), "found bzip2-compressed data"),
                                    ("text.xz", lzma.compress(b"text " * 100), "found xz-compressed data"),
                                    ("utf-16.txt", "text".encode("utf-16"), "found UTF-16"),
                                    ("array.json", b'[{"text": "a"}]', "found an array of objects")):
            (self.directory / name).write_bytes(content)
            for ranks in 1, 2:
                with self.subTest(name=name, ranks=ranks):
                    result = self.train("bad", Layout(ranks, 1), {"data.train": name}, code=3)
                    self.assert_one_sentence(result, name, part)

    def test_warns_of_unused_keys(self):
        output = self.train(settings={"data.documents.text_field": "body"}).output
        self.assertIn("data.documents.text_field is ignored: no file of data.train", output)
        lines = b'{"body": "some text of it"}\n' * 300
        (self.directory / "lines.json").write_bytes(lines)
        settings = {"data.train": "lines.json", "data.validation": "lines.json"}
        self.assertNotIn("data.documents.text_field", self.train("json", settings={**settings, "data.documents.text_field": "body"}).output)
        result = self.train("bad", settings=settings, code=3)
        self.assert_one_sentence(result, 'lines.json:1: expected the field "text", found "body"', "data.documents.text_field")


if __name__ == "__main__":
    jobs.main()
