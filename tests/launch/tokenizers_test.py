#!/usr/bin/env python3
"""Subword tokenizers: `longspan tokenizer`, and training on subwords.

    tests/launch/tokenizers_test.py build/launch/longspan
"""

import gzip
import json
import random
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout
from package_tokenizer import tokenizer_json, vocabulary_and_merges

KINDS = "unigram", "bpe", "char", "word"


def write_lines(path, lines=600, seed=1):
    """Writes lines of words of one to three syllables."""
    source = random.Random(seed)
    syllables = "ba lo tir men ka su ét ro ni".split()

    def word():
        return "".join(source.choice(syllables) for _ in range(source.randint(1, 3)))
    path.write_text("".join(" ".join(word() for _ in range(source.randint(4, 9))) + "\n" for _ in range(lines)))


class Subwords(jobs.TestCase):
    subwords = {"data.tokenizer.type": "sentencepiece", "data.tokenizer.model_type": "bpe", "data.tokenizer.vocab_size": 330,
                "data.validation": "held-out.txt", "training.validation.interval": 4}

    def setUp(self):
        super().setUp()
        write_lines(self.directory / "text.txt")
        write_lines(self.directory / "held-out.txt", 30, seed=2)

    def tokenizer(self, *arguments, code=0, given=None):
        """Returns the result of `longspan tokenizer` on standard input."""
        result = subprocess.run([self.program, "tokenizer", *arguments], input=given, capture_output=True,
                                cwd=self.directory, timeout=jobs.MOST_SECONDS)
        self.assertEqual(result.returncode, code, result.stderr.decode())
        return jobs.Result(result.returncode, result.stdout, result.stderr.decode())

    def make_model(self, kind="bpe", vocabulary=330, name="a.model"):
        self.tokenizer("train", "text.txt", "--vocab-size", str(vocabulary), "--model-type", kind, "--output", name)


class TokenizerCommand(Subwords):
    text = "balo  tir\n\n éé 漢😀\t x\r\n<unk> ro".encode()

    def test_each_model_type_round_trips(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                self.make_model(kind)
                ids = self.tokenizer("encode", "a.model", given=self.text).output
                self.assertEqual(len(ids.splitlines()), 4)
                self.assertEqual(self.tokenizer("decode", "a.model", given=ids).output, self.text + b"\n")

    @unittest.skipUnless(shutil.which("spm_encode") and shutil.which("spm_train"), "SentencePiece's tools are not here")
    def test_matches_tools_of_sentencepiece(self):
        # Also a model of spm_train with its defaults.
        subprocess.run(["spm_train", "--input=text.txt", "--model_prefix=theirs", "--vocab_size=200",
                        "--minloglevel=2"], cwd=self.directory, check=True, capture_output=True)
        given = (self.directory / "text.txt").read_bytes() + self.text + b"\n"
        for name in *KINDS, "theirs":
            with self.subTest(model=name):
                model = f"{name}.model"
                if name in KINDS:
                    self.make_model(name, name=model)
                theirs = subprocess.run(["spm_encode", f"--model={model}", "--output_format=id"], input=given,
                                        cwd=self.directory, check=True, capture_output=True).stdout
                self.assertEqual(self.tokenizer("encode", model, given=given).output, theirs)
                if name == "word":  # spm_decode prints the space symbol
                    continue
                text = subprocess.run(["spm_decode", f"--model={model}", "--input_format=id"], input=theirs,
                                      cwd=self.directory, check=True, capture_output=True).stdout
                self.assertEqual(self.tokenizer("decode", model, given=theirs).output, text)

    def test_rejects_invalid_arguments_and_files(self):
        self.make_model()
        (self.directory / "half.model").write_bytes((self.directory / "a.model").read_bytes()[:2000])
        (self.directory / "bytes.txt").write_bytes(b"abc\xff\n")
        train = "train", "text.txt", "--output", "b.model", "--vocab-size"
        json = "train", "text.txt", "--output", "b.json", "--vocab-size"
        for arguments, given, code, *messages in [
                ((*train, "50000"), None, 3, "text.txt: a vocabulary of 50000 is too large: model_type unigram yields ",
                 "; set --vocab-size to at most "),
                ((*train, "262"), None, 3, "text.txt: a vocabulary of 262 is too small", "; set --vocab-size to at least "),
                ((*train, "10"), None, 2, "--vocab-size: expected an integer from 260 to "),
                ((*train, "300", "--model-type", "wordpiece"), None, 2, '--model-type: expected unigram, bpe, char or word for a .model file, found "wordpiece"'),
                ((*train, "300", "--special-tokens", "<s>"), None, 2, " requires --output FILE.json, found "),
                ((*json, "300", "--model-type", "unigram"), None, 2, '--model-type: expected bpe or wordpiece for a tokenizer.json, found "unigram"'),
                ((*json, "300", "--cased"), None, 2, "--cased requires "),
                ((*json, "300", "--special-tokens", "a", "--special-tokens", "a"), None, 2, 'duplicate special token "a"'),
                ((*json, "50000"), None, 3, "text.txt: a vocabulary of 50000 is too large: its repeated pairs ",
                 "; set --vocab-size to at most "),
                (("train", "bytes.txt", "--output", "b.json", "--vocab-size", "300"), None, 3,
                 "bytes.txt: byte 3: expected UTF-8, found bytes ff"),
                (("train", "bytes.txt", "--output", "b.model", "--vocab-size", "300"), None, 3,
                 "bytes.txt: byte 3: expected UTF-8, found bytes ff"),
                (("train", "nowhere", "--output", "b.model", "--vocab-size", "300"), None, 3, "nowhere: cannot be opened"),
                (("train", "text.txt", "--output", "no/b.model", "--vocab-size", "330"), None, 1, "no/b.model: cannot be written"),
                (("encode", "half.model"), b"a", 3, "half.model: expected a SentencePiece model"),
                (("encode", "text.txt"), b"a", 3, "text.txt: expected a SentencePiece model"),
                (("encode", "a.model"), b"a\nb\xff\n", 3, "line 2 of standard input: byte 1: expected UTF-8, found bytes ff"),
                (("decode", "a.model"), b"3 4\n330\n", 3, "line 2 of standard input: expected ids from 0 to 329, found \"330\""),
                (("decode", "a.model"), b"3 -4\n", 3, "line 1 of standard input: expected ids from 0 to 329, found \"-4\""),
                ((), None, 2, "see longspan tokenizer --help")]:
            with self.subTest(arguments=arguments):
                result = self.tokenizer(*arguments, code=code, given=given)
                self.assert_one_sentence(result, *messages)
        self.assertFalse((self.directory / "b.model").exists() or (self.directory / "b.json").exists())

    def test_trains_tokenizer_json(self):
        for more in ((), ("--pre-tokenizer", "llama3", "--special-tokens", "<s>", "--special-tokens", "</s>"), ("--tie-break", "ids", "--merge-score", "likelihood")):
            with self.subTest(more=more):
                result = self.tokenizer("train", "text.txt", "--vocab-size", "330", "--output", "a.json", *more)
                self.assertEqual(result.output, b"a.json: 330 tokens (bpe)\n")
                given = self.text.replace(b"\r", b"")
                ids = self.tokenizer("encode", "a.json", given=given).output
                self.assertEqual(self.tokenizer("decode", "a.json", given=ids).output, given + b"\n")
        self.tokenizer("train", "text.txt", "--vocab-size", "260", "--output", "a.json", "--model-type", "wordpiece", "--cased")
        ids = self.tokenizer("encode", "a.json", given="balo ét Q".encode()).output
        self.assertEqual(self.tokenizer("decode", "a.json", given=ids).output, "balo ét [UNK]\n".encode())

    def test_special_tokens_option_repeats(self):
        rest = "--vocab-size", "330", "--output", "a.json"
        both = "--special-tokens", "[CLS]", "--special-tokens=[SEP]"
        for words in (("text.txt", *both, *rest), (*both, "text.txt", *rest)):
            with self.subTest(words=words):
                self.tokenizer("train", *words)
                made = json.loads((self.directory / "a.json").read_text())
                self.assertEqual([token["content"] for token in made["added_tokens"]], ["[CLS]", "[SEP]"])
        self.tokenizer("train", "text.txt", "--special-tokens", "<s>", "</s>", *rest, code=2)
        self.assert_one_sentence(self.tokenizer("train", "--special-tokens", "<s>", *rest, code=2), "TEXT is required")

    def test_trains_tokenizer_json_on_compressed_files(self):
        train = "train", "--vocab-size", "330", "--output"
        text = (self.directory / "text.txt").read_text()
        self.tokenizer(*train, "plain.json", "text.txt")
        half = text.index("\n", len(text) // 2) + 1
        for name, part in (("0.jsonl.gz", text[:half]), ("1.jsonl.gz", text[half:])):
            with gzip.open(self.directory / name, "wt") as file:
                file.write(json.dumps({"body": part}) + "\n")
        self.tokenizer(*train, "lines.json", "?.jsonl.gz", "--text-field", "body")
        self.assertEqual((self.directory / "lines.json").read_bytes(), (self.directory / "plain.json").read_bytes())
        result = self.tokenizer(*train, "c.json", "0.jsonl.gz", code=3)
        self.assert_one_sentence(result, '0.jsonl.gz:1: expected the field "text", found ')
        result = self.tokenizer(*train, "c.model", "?.jsonl.gz", "--text-field", "body")
        self.assertEqual(result.output, b"c.model: 330 pieces (unigram)\n")

    def test_help_describes_innermost_subcommand(self):
        self.assertIn(b"file to write: a SentencePiece .model file", self.tokenizer("train", "--help").output)
        self.assertNotIn(b"file to write: a SentencePiece .model file", self.tokenizer("--help").output)


class SubwordTraining(Subwords):
    other_kind = "unigram"

    def models(self, directory):
        return sorted(self.run_at(directory).path.glob("tokenizer-*.model"))

    def test_resumes_exactly(self):
        for layout in Layout(1, 1), Layout(2, 1):
            with self.subTest(layout=str(layout)):
                whole, halves = f"whole-{layout.ranks}", f"halves-{layout.ranks}"
                self.train(whole, layout, self.subwords)
                self.train(halves, layout, {**self.subwords, "training.lr_scheduler.total_steps": 8, "training.max_steps": 4})
                tokens = {path.name: path.stat().st_mtime_ns for path in (self.run_at(halves).path / "tokens").iterdir()}
                self.assertEqual(len(tokens), 2)  # training and validation
                self.train(halves, layout, {**self.subwords, "training.lr_scheduler.total_steps": 8})
                self.assertEqual(self.run_at(halves).state(8), self.run_at(whole).state(8))
                self.assertEqual(self.run_at(halves).metrics_bytes(), self.run_at(whole).metrics_bytes())
                self.assertEqual({path.name: path.stat().st_mtime_ns
                                  for path in (self.run_at(halves).path / "tokens").iterdir()}, tokens)
        # One rank and two train the same tokenizer.
        one, two = self.models("whole-1"), self.models("whole-2")
        self.assertEqual((len(one), one[0].name), (1, two[0].name))
        self.assertEqual(one[0].read_bytes(), two[0].read_bytes())

    def test_checkpoint_contains_tokenizer(self):
        self.train(settings=self.subwords)
        shutil.rmtree(self.run_at().path / "tokens")
        self.models("run")[0].unlink()
        (self.directory / "text.txt").unlink()
        result = self.longspan("evaluate", "run", "--json", ranks=2)
        metrics = json.loads(result.output)
        held_out = (self.directory / "held-out.txt").stat().st_size
        self.assertLess(metrics["num_tokens"], held_out / 2)
        self.assertTrue(held_out - 10 < metrics["num_bytes"] < held_out)
        nats = metrics["loss"] * metrics["num_tokens"]
        self.assertAlmostEqual(metrics["bits_per_byte"], nats / metrics["num_bytes"] / 0.6931471805599453, 9)
        result = self.longspan("generate", "run", "--prompt", "balo tir", "--max-new-tokens", 20)
        self.assertTrue(result.output.startswith("balo tir"))
        self.assertLess(len(self.longspan("inspect", "run").output), 5000)

    def test_uses_existing_model(self):
        self.make_model("unigram", 400)
        settings = {**self.subwords, "data.tokenizer.model": "a.model", "data.cache_dir": "cache"}
        result = self.train(settings=settings)
        self.assertIn("data.tokenizer.vocab_size is ignored: data.tokenizer.model is set", result.output)
        self.assertEqual(self.models("run"), [])
        self.assertEqual(len(list((self.directory / "cache").iterdir())), 2)
        self.assertFalse((self.run_at().path / "tokens").exists())

    def test_resume_rejects_another_tokenizer(self):
        self.train(settings=self.subwords)
        model, = self.models("run")
        for layout, more in ((Layout(1, 1), {"data.tokenizer.vocab_size": 340}),
                             (Layout(2, 1), {"data.tokenizer.model_type": self.other_kind})):
            with self.subTest(layout=str(layout)):
                result = self.train(layout=layout, settings={**self.subwords, **more, "training.max_steps": 9}, code=3)
                self.assert_one_sentence(result, "the tokenizer differs", "data.tokenizer.model")
        # The key in the hint works, with another text.
        write_lines(self.directory / "text.txt", seed=5)
        result = self.train(settings={**self.subwords, "data.tokenizer.model": model, "training.max_steps": 9})
        self.assertIn("text.txt differs from the text that the checkpoint was trained on", result.output)

    def test_rejects_invalid_models_and_texts(self):
        (self.directory / "half.model").write_bytes(b"\x0a\x0e\x0a\x05<unk>")
        (self.directory / "bytes.txt").write_bytes(b"balo tir\n" * 100 + b"\xff\n")
        for number, (more, *messages) in enumerate([
                ({"data.tokenizer.vocab_size": 50000}, "text.txt: a vocabulary of 50000 is too large",
                 "; set data.tokenizer.vocab_size to at most "),
                ({"data.documents.sample_by": "line", "data.documents.end_token": "<eod>"}, "data.documents.end_token: expected an id ",
                 'found "<eod>"; set it to "</s>", the end token of the tokenizer'),
                ({"data.tokenizer.model": "half.model"}, "half.model: expected a SentencePiece model"),
                ({"data.tokenizer.model": "nowhere.model"}, "nowhere.model: cannot be opened"),
                ({"data.train": "bytes.txt", "data.tokenizer.vocab_size": 262}, "bytes.txt: byte 900: expected UTF-8, found bytes ff"),
                ({"data.validation": "bytes.txt"}, "bytes.txt: byte 900: expected UTF-8, found bytes ff")]):
            for layout in Layout(1, 1), Layout(2, 1):
                with self.subTest(more=more, layout=str(layout)):
                    code = 2 if "data.documents.end_token" in more else 3
                    result = self.train(f"wrong-{number}-{layout.ranks}", layout, {**self.subwords, **more}, code=code)
                    self.assert_one_sentence(result, *messages)

    def test_ignores_end_token_without_documents(self):
        for kind, token in (self.subwords["data.tokenizer.type"], "<eod>"), ("byte", "256"):
            with self.subTest(tokenizer=kind):
                settings = {**self.subwords, "data.tokenizer.type": kind, "data.documents.end_token": token}
                result = self.train(kind, settings=settings)
                self.assertIn("data.documents.end_token is ignored: data.documents.sample_by is none, and files have no document ends; "
                              "set data.documents.sample_by to document, paragraph or line", result.output)
                self.longspan("generate", kind, "--prompt", "balo", "--max-new-tokens", 2)

    def test_plan_needs_no_tokenizer(self):
        result = self.longspan("plan", "tiny.yaml", *jobs.flat(self.subwords))
        self.assertIn("memory per rank", result.output)
        self.assertFalse(self.run_at().path.exists())


PAIRS = [("b", "a"), ("l", "o"), (" ", "t"), (" t", "i"), ("ba", "lo"), (" ti", "r"), (" ", "k"), (" k", "a")]


class HuggingFaceTokenizer(Subwords):
    """tokenizer.json, or vocab.json with merges.txt."""
    settings = {"data.tokenizer.type": "huggingface", "data.tokenizer.model": "others/tokenizer.json", "precision.compute_dtype": "float64",
                "data.validation": "held-out.txt", "training.validation.interval": 4}

    def setUp(self):
        super().setUp()
        (self.directory / "others").mkdir()
        (self.directory / "others" / "tokenizer.json").write_text(tokenizer_json(PAIRS, ["<|end|>"]))

    def test_encodes_and_decodes(self):
        vocabulary, merges = vocabulary_and_merges(PAIRS)
        (self.directory / "older").mkdir()
        (self.directory / "older" / "vocab.json").write_text(json.dumps(vocabulary))
        (self.directory / "older" / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
        text = "balo tir\n\nka é漢\t"
        expected = [256 + 4, 256 + 5]  # "balo" and " tir"
        for model in "others/tokenizer.json", "others", "older":
            with self.subTest(model=model):
                ids = self.tokenizer("encode", model, given=text.encode()).output
                self.assertEqual([int(id) for id in ids.splitlines()[0].split()], expected)
                self.assertEqual(self.tokenizer("decode", model, given=ids).output, text.encode() + b"\n")
        self.assertEqual(self.tokenizer("encode", "others", given=b"ba<|end|>ba").output.split(), [b"256", b"264", b"256"])

    def test_resumes_exactly_on_any_layout(self):
        for layout in Layout(1, 1), Layout(2, 1):
            whole, halves = f"whole-{layout.ranks}", f"halves-{layout.ranks}"
            self.train(whole, layout, self.settings)
            self.train(halves, layout, {**self.settings, "training.lr_scheduler.total_steps": 8, "training.max_steps": 4})
            self.train(halves, layout, {**self.settings, "training.lr_scheduler.total_steps": 8})
            self.assertEqual(self.run_at(halves).state(8), self.run_at(whole).state(8))
            self.assertEqual(self.run_at(halves).metrics_bytes(), self.run_at(whole).metrics_bytes())
        losses = [[line["loss"] for line in self.run_at(f"whole-{ranks}").metrics()] for ranks in (1, 2)]
        for one, other in zip(*losses, strict=True):
            self.assertAlmostEqual(one, other, delta=1e-9)

    def test_checkpoint_contains_tokenizer(self):
        self.train(settings=self.settings)
        shutil.rmtree(self.directory / "others")
        shutil.rmtree(self.run_at().path / "tokens")
        metrics = json.loads(self.longspan("evaluate", "run", "--json", ranks=2).output)
        held_out = (self.directory / "held-out.txt").stat().st_size
        self.assertLess(metrics["num_tokens"], held_out)
        self.assertTrue(held_out - 10 < metrics["num_bytes"] < held_out)
        nats = metrics["loss"] * metrics["num_tokens"]
        self.assertAlmostEqual(metrics["bits_per_byte"], nats / metrics["num_bytes"] / 0.6931471805599453, 9)
        result = self.longspan("generate", "run", "--prompt", "balo tir", "--max-new-tokens", 20)
        self.assertTrue(result.output.startswith("balo tir"))

    def test_resume_rejects_another_tokenizer(self):
        self.train(settings=self.settings)
        (self.directory / "others" / "tokenizer.json").write_text(tokenizer_json(PAIRS[:-1]))
        result = self.train(settings={**self.settings, "training.max_steps": 9}, code=3)
        self.assert_one_sentence(result, "the tokenizer differs")
        grown = {**self.settings, "training.init_from.path": "run", "training.init_from.resize_vocab": True, "training.max_steps": 1}
        result = self.train("grown", settings=grown)
        self.assertIn("vocabulary rows: 263 of 263 copied, 0 new, 2 of 265 in the checkpoint not used", result.output)

    def test_rejects_invalid_tokenizers(self):
        (self.directory / "empty").mkdir()
        (self.directory / "half.json").write_text(tokenizer_json(PAIRS)[:500])
        (self.directory / "odd.json").write_text(tokenizer_json(PAIRS).replace('"BPE"', '"Markov"'))
        for number, (more, code, message) in enumerate([
                ({"data.tokenizer.model": "nowhere.json"}, 3, "nowhere.json: cannot be opened"),
                ({"data.tokenizer.model": "empty"}, 3, "empty: expected tokenizer.json, vocab.json with merges.txt"),
                ({"data.tokenizer.model": "half.json"}, 3, "half.json: "),
                ({"data.tokenizer.model": "odd.json"}, 3, '"Markov"'),
                ({"data.tokenizer.model": ""}, 2, "requires data.tokenizer.model_type bpe or wordpiece, found unigram"),
                ({"data.tokenizer.model": "", "data.tokenizer.model_type": "bpe", "data.tokenizer.vocab_size": 50000}, 3,
                 "text.txt: a vocabulary of 50000 is too large"),
                ({"run.task": "behavior_cloning", "model.family": "decoder"}, 2,
                 "data.tokenizer.type: huggingface requires run.task: language_modeling, translation, classification or tagging, found "
                 "behavior_cloning")]):
            for layout in Layout(1, 1), Layout(2, 1):
                with self.subTest(more=more, layout=str(layout)):
                    result = self.train(f"wrong-{number}-{layout.ranks}", layout, {**self.settings, **more}, code=code)
                    self.assertIn(message, result.errors)


class SlowTokenizers(Subwords):
    """Folders without tokenizer.json. Ids match transformers 5.24, except for the space before <mask>, which slow
    tokenizers of transformers 4 remove."""
    pairs = [("H", "e"), ("l", "l"), ("He", "ll"), ("Hell", "o"), ("o", "r"), (" ", "w"), (" w", "or"), (" wor", "l"),
             (" worl", "d"), (" ", "i"), (" i", "s"), (" ", "t")]
    text = "Hello world, this is <mask> text  12345 <|endoftext|> na\u0308ive café"
    ending = [32, 49, 50, 51, 52, 53, 32, 268, 32, 110, 97, 204, 136, 105, 118, 101, 32, 99, 97, 102, 195, 169]

    def folder(self, name, **files):
        path = self.directory / name
        path.mkdir()
        for file, content in files.items():
            file = file.replace("__", ".")
            (path / file).write_text(content if isinstance(content, str) else json.dumps(content))
        return name

    def two_files(self, name, before=(), after=(), **files):
        """Writes vocab.json and merges.txt, with tokens before and after those of byte pairs."""
        vocabulary, merges = vocabulary_and_merges(self.pairs)
        tokens = [*before, *vocabulary, *after]
        return self.folder(name, vocab__json={token: id for id, token in enumerate(tokens)},
                           merges__txt="#version: 0.2\n" + "\n".join(merges) + "\n", **files)

    def ids(self, folder, text=None):
        return [int(id) for id in self.tokenizer("encode", folder, given=(text or self.text).encode()).output.split()]

    def refused(self, folder, *parts):
        self.assert_one_sentence(self.tokenizer("encode", folder, given=b"a", code=3), *parts)

    def test_gpt2_matches_transformers(self):
        ids = [259, 264, 44, 267, 104, 105, 115, 266, 32, 60, 109, 97, 115, 107, 62, 267, 101, 120, 116, 32, *self.ending]
        self.assertEqual(self.ids(self.two_files("plain", after=["<|endoftext|>"])), ids)
        mask = {"mask_token": {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False}}
        masked = [259, 264, 44, 267, 104, 105, 115, 266, 300, 267, 101, 120, 116, 32, *self.ending]
        self.assertEqual(self.ids(self.two_files("added", after=["<|endoftext|>"], added_tokens__json={"<mask>": 300},
                                                 special_tokens_map__json=mask)), masked)
        with_space = self.two_files("space", after=["<|endoftext|>"], tokenizer_config__json={"add_prefix_space": True})
        self.assertEqual(self.ids(with_space, "world"), [264])

    def test_roberta_and_bart_match_transformers(self):
        first, last = ["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"]
        ids = [263, 268, 48, 271, 108, 109, 119, 270, 272, 271, 105, 124, 120, 36, 36, 53, 54, 55, 56, 57, 36, 64, 128, 105, 114,
               104, 115, 106, 120, 105, 124, 120, 128, 66, 36, 114, 101, 208, 140, 109, 122, 105, 36, 103, 101, 106, 199, 173]
        sources = {"by-type": {"config__json": {"model_type": "roberta"}}, "bart": {"config__json": {"model_type": "bart"}},
                   "by-class": {"tokenizer_config__json": {"tokenizer_class": "RobertaTokenizerFast"}}, "by-pieces": {}}
        for name, files in sources.items():
            self.assertEqual(self.ids(self.two_files(name, first, last, **files)), ids, name)
        # Settings of a token have priority.
        plain = {"mask_token": {"content": "<mask>", "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}}
        self.assertEqual(self.ids(self.two_files("kept", first, last, special_tokens_map__json=plain)), ids[:8] + [36] + ids[8:])
        self.refused(self.two_files("none", config__json={"model_type": "roberta"}), 'has no token "<s>", the cls_token')

    def test_qwen2_matches_transformers(self):
        ids = [259, 264, 44, 267, 104, 105, 115, 266, 32, 60, 109, 97, 115, 107, 62, 267, 101, 120, 116, 32, 32, 49, 50, 51, 52, 53, 32,
               268, 32, 110, 195, 164, 105, 118, 101, 32, 99, 97, 102, 195, 169]
        added = {str(id): {"content": name, "special": True, "normalized": False} for id, name in ((268, "<|endoftext|>"), (269, "<|im_start|>"))}
        folder = self.two_files("qwen", tokenizer_config__json={"added_tokens_decoder": added}, config__json={"model_type": "qwen3"})
        self.assertEqual(self.ids(folder), ids)
        self.assertEqual(self.ids(folder, "<|im_start|>H"), [269, 72])

    def test_bert_matches_transformers(self):
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", ",", "this", "is", "text", "##s", "na", "##ive", "cafe",
                  "12", "##3", "##45", "<", "mask", ">"]
        text, ids = self.text + " [MASK] texts", [5, 6, 7, 8, 9, 18, 19, 20, 10, 15, 16, 17, 18, 1, 1, 1, 20, 12, 13, 14, 4, 10, 11]
        lines = "\n".join(pieces) + "\n"
        self.assertEqual(self.ids(self.folder("bert", vocab__txt=lines), text), ids)
        self.assertEqual(self.ids(self.folder("crlf", vocab__txt=lines.replace("\n", "\r\n")), text), ids)
        cased = self.folder("cased", vocab__txt=lines, tokenizer_config__json={"do_lower_case": False})
        self.assertEqual(self.ids(cased, "Hello hello"), [1, 5])
        self.assertEqual(self.ids(self.folder("capitals", vocab__txt=lines + "Hello\n"), "Hello hello"), [21, 5])
        self.refused(self.folder("basic", vocab__txt=lines, tokenizer_config__json={"do_basic_tokenize": False}),
                     '"do_basic_tokenize": expected true, found false')
        self.refused(self.folder("small", vocab__txt="a\nb\n"), 'has no token "[UNK]", the unk_token')

    def test_accepts_vocabulary_with_gaps(self):
        vocabulary, merges = vocabulary_and_merges(self.pairs)
        merges = "\n".join(merges) + "\n"
        gaps = {token: 2 * id for token, id in vocabulary.items()}
        far = {**vocabulary, "<|endoftext|>": 50256}
        self.assertEqual(self.ids(self.folder("gaps", vocab__json=gaps, merges__txt=merges), "Hello"), [2 * 259])
        self.assertEqual(self.ids(self.folder("far", vocab__json=far, merges__txt=merges), "Hello<|endoftext|>"), [259, 50256])
        added = self.folder("added", vocab__json=vocabulary, merges__txt=merges, added_tokens__json={"<pad>": 400})
        self.assertEqual(self.ids(added, "Hello<pad>"), [259, 400])

    def test_rejects_unsupported_classes(self):
        self.refused(self.two_files("fast", tokenizer_config__json={"tokenizer_class": "PreTrainedTokenizerFast"}),
                     '"tokenizer_class": "PreTrainedTokenizerFast" does not support', "save the tokenizer as tokenizer.json")
        self.refused(self.two_files("kind", tokenizer_config__json={"tokenizer_class": "BertTokenizer"}), '"tokenizer_class": "BertTokenizer" does not support')
        self.refused(self.folder("bpe", sentencepiece__bpe__model="x"), "found sentencepiece.bpe.model; save the tokenizer as tokenizer.json")
        self.refused(self.folder("alone", vocab__json={"a": 0}), "found vocab.json; save the tokenizer as tokenizer.json")
        self.refused(self.folder("tiktoken", tokenizer__model="IQ== 0\nIg== 1\n"), "tokenizer.model: expected a SentencePiece model")

    def test_sentencepiece_models_match_library(self):
        """Compares ids with those of the library."""
        lines = "balo tir  ménka\n<s> ro 漢\n  ba\n"
        for kind in "unigram", "bpe":
            self.make_model(kind, name=f"{kind}.model")
            expected = self.tokenizer("encode", f"{kind}.model", given=lines.encode()).output.splitlines()
            path = self.directory / kind
            path.mkdir()
            shutil.copy(self.directory / f"{kind}.model", path / "tokenizer.model")
            (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer"}))
            found = self.tokenizer("encode", kind, given=lines.encode()).output.splitlines()
            self.assertEqual((found[0], found[2]), (expected[0], expected[2]))
            self.assertEqual(found[1].split()[0], b"1")  # <s>, which the library reads as text
            self.assertEqual(self.tokenizer("decode", kind, given=found[0]).output, b"balo tir  m\xc3\xa9nka\n")
        self.make_model("char", 270, name="char.model")
        (self.directory / "char").mkdir()
        shutil.copy(self.directory / "char.model", self.directory / "char" / "tokenizer.model")
        self.refused("char", "char/tokenizer.model: this SentencePiece model cannot be converted to tokenizer.json; "
                             "set data.tokenizer.type to sentencepiece")

    @unittest.skipUnless(shutil.which("spm_encode") and shutil.which("spm_train"), "SentencePiece's tools are not here")
    def test_third_party_sentencepiece_models_match_library(self):
        text = "balo  tir ménka ﬁ"
        for kind in "unigram", "bpe":
            subprocess.run(["spm_train", "--input=text.txt", f"--model_prefix={kind}", f"--model_type={kind}", "--vocab_size=300",
                            "--character_coverage=1", "--byte_fallback=true", "--hard_vocab_limit=false", "--pad_id=0", "--eos_id=1", "--unk_id=2",
                            "--bos_id=-1"], cwd=self.directory, check=True, capture_output=True)
            expected = subprocess.run(["spm_encode", f"--model={kind}.model", "--output_format=id"], cwd=self.directory, check=True,
                                      capture_output=True, input=text.encode()).stdout.split()
            for name, file, config in (("t5", "spiece.model", {"extra_ids": 2}),
                                       ("llama", "tokenizer.model", {"add_bos_token": False, "unk_token": "<unk>"})):
                path = self.directory / f"{name}-{kind}"
                path.mkdir()
                shutil.copy(self.directory / f"{kind}.model", path / file)
                (path / "tokenizer_config.json").write_text(json.dumps(config))
                self.assertEqual(self.tokenizer("encode", path.name, given=text.encode()).output.split(), expected, path.name)
            pieces = int(expected[0]) and len((self.directory / f"{kind}.vocab").read_text().splitlines())
            self.assertEqual(self.ids(f"t5-{kind}", "<extra_id_0> <extra_id_1>")[-1], pieces)


class HuggingFaceTraining(SubwordTraining):
    """Repeats the tests of a trained .model file with a trained tokenizer.json."""
    subwords = {**Subwords.subwords, "data.tokenizer.type": "huggingface"}
    test_uses_existing_model = None
    test_rejects_invalid_models_and_texts = None
    other_kind = "wordpiece"

    def models(self, directory):
        return sorted(self.run_at(directory).path.glob("tokenizer-*.json"))


if __name__ == "__main__":
    jobs.main()
