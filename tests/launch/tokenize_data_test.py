#!/usr/bin/env python3
"""`longspan tokenize-data`: token files of texts, documents and compressed files, and restarts.

    tests/launch/tokenize_data_test.py build/launch/longspan
"""

import gzip
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from package_tokenizer import tokenizer_json

PAIRS = [("b", "a"), ("l", "o"), (" ", "t"), (" t", "i"), ("ba", "lo"), (" ti", "r"), (" ", "k"), (" k", "a")]


def documents(count=300, seed=1):
    """Returns texts of one to four lines."""
    source = random.Random(seed)
    syllables = "ba lo tir men ka su ét ro ni".split()

    def line():
        return " ".join("".join(source.choice(syllables) for _ in range(source.randint(1, 3)))
                        for _ in range(source.randint(4, 9)))
    return ["\n".join(line() for _ in range(source.randint(1, 4))) for _ in range(count)]


def json_lines(texts):
    return "".join(json.dumps({"id": i, "text": text}, ensure_ascii=i % 2 == 0) + "\n" for i, text in enumerate(texts)).encode()


class TokenizeData(jobs.TestCase):
    def setUp(self):
        super().setUp()
        (self.directory / "tokenizer.json").write_text(tokenizer_json(PAIRS, ["<|endoftext|>"]))
        self.package = {"data.tokenizer.type": "huggingface", "data.tokenizer.model": "tokenizer.json",
                        "data.cache_dir": "cache"}

    def tokenize_data(self, settings, *more, code=0, ranks=1):
        return self.longspan("tokenize-data", "tiny.yaml", *jobs.flat(settings), *more, code=code, ranks=ranks)

    def write(self, name, content):
        (self.directory / name).write_bytes(content)

    def cached(self):
        return sorted(path.name for path in (self.directory / "cache").iterdir())

    def line_of(self, name, result):
        """Returns documents, tokens, bytes and the rest of the output line of a file."""
        found = re.search(rf"(?m)^{re.escape(name)}: (\d+) documents?, (\d+) tokens?, (\d+) bytes? of text(.*)$", result.output)
        self.assertTrue(found, result.output)
        return (*map(int, found.groups()[:3]), found.group(4))


class InputFormats(TokenizeData):
    def test_compression_does_not_change_tokens(self):
        texts = documents()
        plain = json_lines(texts)
        self.write("a.jsonl", plain)
        self.write("b.jsonl.gz", gzip.compress(plain[:5000]) + gzip.compress(plain[5000:]))
        files = {"data.train": "a.jsonl", "data.validation": "b.jsonl.gz"}
        if shutil.which("zstd"):
            subprocess.run(["zstd", "-q", "a.jsonl", "-o", "c.jsonl.zst"], cwd=self.directory, check=True)
            files["data.test"] = "c.jsonl.zst"
        result = self.tokenize_data({**self.package, **files, "data.documents.end_token": "<|endoftext|>"})
        self.assertEqual(len(self.cached()), len(files))
        lines = [self.line_of(name, result) for name in files.values()]
        for line in lines:
            self.assertEqual(line[:3], lines[0][:3])
        count, tokens, size, _ = lines[0]
        self.assertEqual((count, size), (len(texts), sum(len(text.encode()) for text in texts)))
        alone = subprocess.run([self.program, "tokenizer", "encode", "tokenizer.json"], capture_output=True, check=True,
                               input="".join(text + "\n" for text in texts).encode(), cwd=self.directory)
        self.assertLess(count, tokens)
        self.assertLess(tokens, size)
        # Each line end within a document is a token, and each document has an end token.
        inner = sum(text.count("\n") for text in texts)
        self.assertEqual(tokens, len(alone.stdout.split()) + inner + len(texts))
        content = {(self.directory / "cache" / name).read_bytes()[128:] for name in self.cached()}
        self.assertEqual(len(content), 1)
        self.assertRegex(result.output, rf"(?m)^{len(files)} files: .* 0 cached$")

    def test_sample_by_defines_documents(self):
        self.write("text.txt", b"one\ntwo\n\nthree\n\n\nfour\nfive\n")
        for settings, count, size in [({"data.documents.sample_by": "line"}, 5, 19), ({"data.documents.sample_by": "paragraph"}, 3, 21),
                                      ({"data.documents.sample_by": "document"}, 1, 27), ({**self.package}, 1, 27)]:
            with self.subTest(settings=settings):
                result = self.tokenize_data({"data.cache_dir": "cache", **settings})
                self.assertEqual(self.line_of("text.txt", result)[::2][:2], (count, size))
        self.assertIn("text.txt: read in place", self.tokenize_data({}).output)

    def test_training_uses_token_files(self):
        for settings in (self.package, {"data.tokenizer.type": "sentencepiece", "data.tokenizer.vocab_size": 300}):
            with self.subTest(settings=settings):
                shutil.rmtree(self.directory / "run", ignore_errors=True)
                self.write("text.txt", "".join(text + "\n" for text in documents()).encode())
                self.tokenize_data(settings)
                files = [path for folder in ("cache", "run") for path in (self.directory / folder).rglob("*") if path.is_file()]
                before = {path: path.stat().st_mtime_ns for path in files}
                self.train(settings=settings)
                self.assertEqual({path: path.stat().st_mtime_ns for path in files}, before)
                made = {path.suffix for path in before}
                self.assertIn(".tokens", made)
                self.assertEqual(len(list(self.run_at().path.rglob("*.model"))), "data.tokenizer.vocab_size" in settings)

    def test_tokenizers_train_on_texts_of_documents(self):
        self.write("a.jsonl.gz", gzip.compress(json_lines(documents(600))))
        for settings, vocabulary in (({"data.tokenizer.type": "char"}, None),
                                     ({"data.tokenizer.type": "sentencepiece", "data.tokenizer.vocab_size": 300}, 300)):
            with self.subTest(settings=settings):
                result = self.tokenize_data({"data.train": "a.jsonl.gz", **settings})
                count, tokens, size, _ = self.line_of("a.jsonl.gz", result)
                self.assertEqual(count, 600)
                self.assertLess(tokens, size)

    def test_ranks_share_cache(self):
        self.write("a.jsonl", json_lines(documents()))
        settings = {"data.train": "a.jsonl", "data.tokenizer.type": "sentencepiece", "data.tokenizer.vocab_size": 300,
                    "parallel.data_parallel_size": 2}
        result = self.tokenize_data(settings, ranks=2)
        self.assertIn("1 file: 300 documents", result.output)
        self.assertIn("1 cached", self.tokenize_data(settings).output)


class Restart(TokenizeData):
    def test_keeps_complete_files(self):
        self.write("large.jsonl", json_lines(documents(2000, 2) * 40))
        self.write("small.jsonl", json_lines(documents(2000, 3) * 30))
        settings = {**self.package, "data.train": "large.jsonl", "data.validation": "small.jsonl"}
        arguments = ["tokenize-data", "tiny.yaml", *jobs.flat(settings), "--shard-mib", "2"]
        # Killed within a file, and between two files.
        for number, is_time in enumerate([lambda: any(re.search(r"\.part-1$", name) for name in self.cached()),
                                          lambda: any(name.startswith("large") and name.endswith(".tokens") for name in self.cached())]):
            job = self.start(*arguments)
            (self.directory / "cache").mkdir(exist_ok=True)
            self.assertTrue(jobs.until(lambda: job.ended() or is_time()))
            self.assertFalse(job.ended(), "it was too quick to be killed")
            job.signal(signal.SIGKILL, "all")
            job.wait()
            self.assertEqual(any(name.startswith("large") and name.endswith(".tokens") for name in self.cached()), number == 1)
        result = self.longspan(*arguments)
        self.assertIn("cached", self.line_of("large.jsonl", result)[3])
        self.assertIn("2 files: 140000 documents", result.output)
        self.assertRegex(result.output, r"; 1 cached\n\Z")
        kept = {name: (self.directory / "cache" / name).read_bytes() for name in self.cached()}
        self.assertEqual(len(kept), 2, kept.keys())
        self.assertRegex(self.longspan(*arguments).output, r"; 2 cached\n\Z")
        # An uninterrupted run writes equal files.
        shutil.rmtree(self.directory / "cache")
        result = self.tokenize_data(settings)
        self.assertNotIn("resumed", result.output)
        self.assertEqual({name: (self.directory / "cache" / name).read_bytes() for name in self.cached()}, kept)

    def test_resumes_after_complete_shard(self):
        self.write("large.jsonl", json_lines(documents(2000, 2) * 40))
        settings = {**self.package, "data.train": "large.jsonl"}
        arguments = ["tokenize-data", "tiny.yaml", *jobs.flat(settings), "--shard-mib", "2"]
        job = self.start(*arguments)
        (self.directory / "cache").mkdir(exist_ok=True)
        self.assertTrue(jobs.until(lambda: job.ended() or any(re.search(r"\.part-0$", name) for name in self.cached())))
        self.assertFalse(job.ended(), "it was too quick to be killed")
        job.signal(signal.SIGKILL, "all")
        job.wait()
        self.assertRegex(self.line_of("large.jsonl", self.longspan(*arguments))[3], r"resumed after [\d.]+ MB of the text")

    def test_concurrent_processes_share_cache(self):
        self.write("a.jsonl", json_lines(documents(2000, 2) * 10))
        arguments = ["tokenize-data", "tiny.yaml", *jobs.flat({**self.package, "data.train": "a.jsonl"}), "--shard-mib", "1"]
        both = [self.start(*arguments) for _ in range(2)]
        for job in both:
            result = job.wait()
            self.assertEqual(result.code, 0, result.errors)
            self.assertIn("20000 documents", result.output)
        self.assertEqual(len(self.cached()), 1)


class InputErrors(TokenizeData):
    def test_rejects_invalid_files_and_keys(self):
        good = json_lines(documents(50))
        packed = gzip.compress(good)
        self.write("half.jsonl.gz", packed[:len(packed) // 2])
        self.write("rest.jsonl.gz", packed + b"rest")
        self.write("plain.jsonl.gz", good)
        self.write("line.jsonl", good + b"{\"text\": 3}\n")
        self.write("broken.jsonl", good + b"{\"text\": \"a\n")
        self.write("field.jsonl", good)
        self.write("bytes.txt", b"balo\n\xff\n")
        self.write("blank.txt", b"\n\n\n")
        for more, code, message in [
                ({"data.train": "half.jsonl.gz"}, 3, "half.jsonl.gz: byte "),
                ({"data.train": "rest.jsonl.gz"}, 3, f"rest.jsonl.gz: byte {len(packed)}: trailing data is not compressed"),
                ({"data.train": "plain.jsonl.gz"}, 3, "plain.jsonl.gz: byte 0: expected gzip data, as in its name"),
                ({"data.train": "line.jsonl"}, 3, "line.jsonl:51: field \"text\": expected a string, found a number"),
                ({"data.train": "broken.jsonl"}, 3, "broken.jsonl:51: invalid JSON at byte "),
                ({"data.train": "field.jsonl", "data.documents.text_field": "body"}, 3, "field.jsonl:1: expected the field \"body\", found "),
                ({"data.train": "bytes.txt"}, 3, "bytes.txt: byte 5: expected UTF-8, found bytes ff"),
                ({"data.train": "blank.txt", "data.documents.sample_by": "line"}, 3, "blank.txt: expected tokens, found none"),
                ({"data.train": "nowhere.jsonl"}, 3, "nowhere.jsonl: cannot be opened for reading"),
                ({"data.documents.sample_by": "line", "data.documents.end_token": "<eod>"}, 2,
                 "data.documents.end_token: expected an id from 0 to 264"),
                ({"data.documents.sample_by": "page"}, 2,
                 "data.documents.sample_by: expected none, document, line or paragraph, found \"page\""),
                ({"data.cache_dir": "text.txt/cache"}, 2, "text.txt/cache: cannot be written: Not a directory")]:
            with self.subTest(more=more):
                result = self.tokenize_data({**self.package, **more}, code=code)
                self.assert_one_sentence(result, message)
                self.assertEqual(result.output, "")
        self.assert_one_sentence(self.tokenize_data({"run.task": "behavior_cloning"}, code=2),
                                 "longspan tokenize-data requires run.task: language_modeling, found behavior_cloning")


if __name__ == "__main__":
    jobs.main()
