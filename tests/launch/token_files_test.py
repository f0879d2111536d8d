#!/usr/bin/env python3
"""Files of token ids, as nanoGPT and Megatron-LM write them: training, resuming, evaluation and generation.

    tests/launch/token_files_test.py build/launch/longspan
"""

import array
import json
import random
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout

VOCABULARY = 300
TOKENS = {"data.format": "tokens", "data.tokenizer.type": "none", "data.tokenizer.vocab_size": VOCABULARY, "data.train": "train.bin",
          "data.validation": "validation.bin"}
LAYOUTS = Layout(1, 1), Layout(2, 1), Layout(1, 2), Layout(1, 1, 2)


def write_ids(path, kind="H", count=6000, most=VOCABULARY, seed=1):
    """Writes random ids, of which eight are most frequent; kind H has 16 bits, I has 32."""
    source = random.Random(seed)
    ids = [source.randrange(8) if source.random() < 0.8 else source.randrange(most) for _ in range(count)]
    path.write_bytes(array.array(kind, ids).tobytes())


class TokenFiles(jobs.TestCase):
    def setUp(self):
        super().setUp()
        write_ids(self.directory / "train.bin")
        write_ids(self.directory / "validation.bin", count=500, seed=2)

    def train_ids(self, directory, layout=Layout(1, 1), **settings):
        return self.train(directory, layout, {**TOKENS, "training.lr_scheduler.total_steps": 100, **settings})

    def losses(self, directory):
        return [line["loss"] for line in self.run_at(directory).metrics()]

    def test_trains_and_evaluates_without_bits_per_byte(self):
        output = self.train_ids("run", **{"training.max_steps": 60, "training.learning_rate": 0.03}).output
        self.assertIn("train.bin: 6000 tokens; batches of 8 sequences that continue across steps, 93 steps per epoch\n", output)
        self.assertRegex(output, r"validation loss \d+\.\d{4}\n")
        self.assertNotIn("bits per byte", output)
        last = self.run_at().metrics()[-1]
        self.assertNotIn("validation_bits_per_byte", last)
        self.assertLess(last["validation_loss"], 5)  # ln 300 is 5.70
        found = json.loads(self.longspan("evaluate", "run", "--json").output)
        self.assertAlmostEqual(found["loss"], last["validation_loss"], delta=1e-5)
        self.assertEqual(found["num_tokens"], 499)
        self.assertNotIn("bits_per_byte", found)
        self.assertNotIn("num_bytes", found)
        self.assertRegex(self.longspan("evaluate", "run").output, r"^validation.bin: loss [\d.]+ nats per token, perplexity "
                         r"[\d.]+; 499 tokens in ")
        found = self.longspan("evaluate", "run", "--data", "train.bin", "--json").output
        self.assertEqual(json.loads(found)["num_tokens"], 5999)

    def test_validation_fraction_is_reported(self):
        output = self.train_ids("run", **{"training.validation.max_batches": 2}).output
        self.assertAlmostEqual(self.run_at().metrics()[-1]["validation_fraction"], 2 * 8 * 8 / 499)
        self.assertRegex(output, r"validation loss \d+\.\d{4}; on 25.7% of the text \(training.validation.max_batches: 2\)\n")

    def test_generates_ids(self):
        self.train_ids("run")
        words = self.longspan("generate", "run", "--prompt", "17 4", "--max-new-tokens", 6, "--temperature", 0).output.split()
        self.assertEqual(words[:2], ["17", "4"])
        self.assertEqual(len(words), 8)
        self.assertTrue(all(0 <= int(word) < VOCABULARY for word in words))
        (self.directory / "prompt").write_text("17\n4\n")
        again = self.longspan("generate", "run", "--prompt-file", "prompt", "--max-new-tokens", 6, "--temperature", 0).output.split()
        self.assertEqual(again, words)
        self.assert_one_sentence(self.longspan("generate", "run", code=2), "data.tokenizer.type: none requires a prompt; pass token ids from 0 to 299")
        self.assert_one_sentence(self.longspan("generate", "run", "--prompt", "In the", code=3), 'the prompt: byte 0: expected '
                                 'a token id from 0 to 299, found "In"')

    def test_uint32_equals_uint16(self):
        ids = array.array("H", (self.directory / "train.bin").read_bytes())
        (self.directory / "wide.bin").write_bytes(array.array("I", ids).tobytes())
        (self.directory / "wide-validation.bin").write_bytes(array.array("I", ids[:500]).tobytes())
        self.train_ids("narrow")
        self.train_ids("wide", **{"data.train": "wide.bin", "data.validation": "wide-validation.bin", "data.token_dtype": "uint32"})
        self.assertEqual(self.losses("wide"), self.losses("narrow"))

    def test_int64_and_npy_equal_uint16(self):
        losses = {}
        for part in "train", "validation":
            ids = array.array("H", (self.directory / f"{part}.bin").read_bytes())
            header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({len(ids)},), }}".ljust(117) + "\n"
            wide = array.array("q", ids).tobytes()
            (self.directory / f"{part}-64.bin").write_bytes(wide)
            (self.directory / f"{part}.npy").write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + header.encode() + wide)
        self.train_ids("narrow")
        self.train_ids("wide", **{"data.train": "train-64.bin", "data.validation": "validation-64.bin", "data.token_dtype": "uint64"})
        self.train_ids("npy", **{"data.train": "train.npy", "data.validation": "validation.npy"})
        for name in "wide", "npy":
            self.assertEqual(self.run_at(name).metrics_bytes(), self.run_at("narrow").metrics_bytes())
        for bits in "auto", "uint16", "uint32":
            result = self.train(f"bits-{bits}", settings={**TOKENS, "data.train": "train-64.bin", "data.token_dtype": bits}, code=3)
            self.assert_one_sentence(result, "train-64.bin: ", "as in a file of 64-bit ids (NumPy's int64); set data.token_dtype to uint64")

    def test_reads_documents_of_megatron_index(self):
        lengths = [100, 1, 599, 300, 5000]
        def write_index(path, code=8, width=2):
            begins = [width * sum(lengths[:i]) for i in range(len(lengths))]
            path.write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), 5) +
                             struct.pack("<5i5q5q", *lengths, *begins, 0, 1, 3, 4, 5))
        write_index(self.directory / "train.idx")
        apart = {"data.documents.reset_attention_mask": True, "data.global_batch_size": 1, "data.seq_length": 100}
        for layout in LAYOUTS[0], LAYOUTS[2]:
            output = self.train_ids(f"apart-{layout.ranks}", layout, **apart).output
            self.assertIn("train.bin: 6000 tokens in 4 documents", output)
        first, second = (self.run_at(f"apart-{ranks}").metrics() for ranks in (1, 2))
        self.assertEqual([line["tokens"] for line in first][:2], [99, 199])  # the first document ends with the first segment
        for one, other in zip(first, second, strict=True):
            self.assertAlmostEqual(one["loss"], other["loss"], delta=1e-4)
        write_index(self.directory / "train.idx", code=4, width=4)
        self.assert_one_sentence(self.train("wide", settings=TOKENS, code=3), "train.idx: sequence 4 of 5000 ids of 32 bits at byte 4000")
        self.assert_one_sentence(self.train("index", settings={**TOKENS, "data.train": "train.idx"}, code=3),
                                 "train.idx: expected token ids, found a Megatron-LM index; set the path to the .bin file next to it")

    def test_resumes_exactly_and_on_other_layouts(self):
        for layout in LAYOUTS[:2]:
            whole, parts = f"whole-{layout.ranks}", f"parts-{layout.ranks}"
            self.train_ids(whole, layout, **{"training.max_steps": 12})
            for steps in 5, 12:
                output = self.train_ids(parts, layout, **{"training.max_steps": steps}).output
                self.assertNotIn("warning", output)
            self.assertEqual(self.run_at(parts).state(12), self.run_at(whole).state(12))
        for layout in LAYOUTS[1:]:
            with self.subTest(layout=str(layout)):
                parts = f"elastic-{layout}".replace(" ", "-")
                self.train_ids(parts, **{"training.max_steps": 5})
                self.train_ids(parts, layout, **{"training.max_steps": 12})
                for found, expected in zip(self.losses(parts), self.losses("whole-1"), strict=True):
                    self.assertAlmostEqual(found, expected, delta=1e-4)

    def test_resume_warns_of_other_ids_and_rejects_vocabulary(self):
        self.train_ids("run")
        write_ids(self.directory / "train.bin", seed=3)
        self.assertIn("warning: train.bin differs from the text that the checkpoint was trained on",
                      self.train_ids("run", **{"training.max_steps": 9}).output)
        result = self.train("run", settings={**TOKENS, "training.max_steps": 10, "data.tokenizer.vocab_size": 301}, code=3)
        self.assert_one_sentence(result, "the tokenizer differs from that of data.train and data.tokenizer.type; set them as in the "
                                 "checkpoint (including data.tokenizer.vocab_size)")

    def test_new_run_resizes_vocabulary(self):
        self.train_ids("run")
        grow = {"data.tokenizer.vocab_size": 310, "training.init_from.path": "run", "training.init_from.resize_vocab": True}
        self.assertIn("vocabulary rows: 300 of 310 copied, 10 new", self.train_ids("grown", **grow).output)

    def test_rejects_invalid_files(self):
        write_ids(self.directory / "beyond.bin", most=400)
        write_ids(self.directory / "wide.bin", kind="I")
        (self.directory / "odd.bin").write_bytes(b"abc")
        for name, *parts in (  # detected on opening
                ("beyond.bin", "beyond.bin: byte ", "read as an id of 16 bits (data.token_dtype), but the vocabulary has 300 ids, 0 to 299"),
                ("wide.bin", "wide.bin: every second 16-bit id is 0, as in a file of 32-bit ids; set data.token_dtype to uint32"),
                ("odd.bin", "odd.bin: expected whole ids of 16 bits (data.token_dtype), found 3 bytes"),
                ("none.bin", "data.train: none.bin: cannot be opened for reading: No such file")):
            with self.subTest(name=name):
                for layout in LAYOUTS[:2]:
                    result = self.train(f"run-{name}-{layout.ranks}", layout, {**TOKENS, "data.train": name}, code=3)
                    for part in parts:
                        self.assertIn(part, result.errors)

    def test_invalid_id_in_training_is_reported_with_position(self):
        ids = array.array("H", [1] * 2_000_000)
        ids[5020] = 300  # between two sampled positions
        (self.directory / "late.bin").write_bytes(ids.tobytes())
        result = self.train("run", settings={**TOKENS, "data.train": "late.bin", "data.global_batch_size": 1,
                                             "data.seq_length": 1000}, code=3)
        self.assertIn("late.bin: byte 10040: token 5020 is 300", result.errors)

    def test_rejects_incompatible_keys(self):
        for settings, *parts in (
                ({"data.tokenizer.type": "none", "data.tokenizer.vocab_size": 300}, "data.tokenizer.type: none requires data.format: tokens"),
                ({"data.format": "tokens"}, "data.format: tokens requires data.tokenizer.type: none"),
                ({"data.format": "tokens", "data.tokenizer.type": "sentencepiece"}, "with data.tokenizer.model"),
                ({"data.format": "tokens", "data.tokenizer.type": "none"},
                 "data.tokenizer.type: none requires data.tokenizer.vocab_size"),
                ({**TOKENS, "run.task": "classification", "model.family": "encoder"}, "data.format: tokens requires run.task: "
                 "language_modeling, found classification"),
                ({**TOKENS, "data.token_dtype": "uint8"}, "data.token_dtype", "auto, uint16, uint32 or uint64"),
                ({**TOKENS, "data.tokenizer.vocab_size": 0}, "data.tokenizer.vocab_size", "1 to 16777216"),
                ({"data.tokenizer.type": "sentencepiece", "data.tokenizer.vocab_size": 100},
                 "data.tokenizer.vocab_size: expected at least 260 ids"),
                ({**TOKENS, "checkpoint.best_metric": "bits_per_byte"}, "bits_per_byte cannot be combined with data.format: tokens")):
            with self.subTest(settings=settings):
                result = self.longspan("config", "tiny.yaml", *jobs.flat(settings), code=2)
                for part in parts:
                    self.assertIn(part, result.errors)

    def test_file_of_100_gb_starts_quickly(self):
        with open(self.directory / "train.bin", "r+b") as file:
            file.truncate(100_000_000_000)
        begin = time.monotonic()
        self.train_ids("run", Layout(2, 1), **{"training.max_steps": 2})
        self.assertLess(time.monotonic() - begin, 30)


if __name__ == "__main__":
    jobs.main()
