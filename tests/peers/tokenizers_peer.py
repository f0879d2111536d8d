#!/usr/bin/env python3
"""Tokenizers of the package `tokenizers`, for tests/tokenizers/peer_test.py.

    python tokenizers_peer.py PROGRAM FOLDER [TEXT]

Trains a small tokenizer of each kind, encodes characters of every Unicode block, random bytes and words (and TEXT, a
large file, in pieces of some megabytes) with it and with PROGRAM, and fails if ids or decoded texts differ. Also
compares tokenizers that PROGRAM trains with those of the package.

SPDX-License-Identifier: Apache-2.0
"""
import array
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the comparison is by processor time
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

END = r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA_3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + END
QWEN_2 = LLAMA_3.replace("{1,3}", "")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|" + END)
CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
source = random.Random(7)


def words(count):
    syllables = [a + b for a in "bdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "en", "er", "ing", "th", "é")]
    known = ["".join(source.choices(syllables, k=source.randint(1, 4))) for _ in range(3000)]
    marks = [" "] * 12 + [", ", ". ", "\n", "\n\n", "'s ", "  ", " 1984 ", "-", "! ", "\t", "\r\n", " (", ") "]
    return "".join(w.capitalize() if source.random() < .1 else w
                   for pair in zip(source.choices(known, k=count), source.choices(marks, k=count)) for w in pair)


def mixed(count):
    near, all_blocks = CHARACTERS[:0x3000], CHARACTERS[:0x30000]
    kinds = [all_blocks, near, [chr(c) for c in range(32, 127)], list("\n\r\t   \x85\xa0\u3000\u200d")]
    return "".join(source.choice(source.choices(kinds, [3, 4, 3, 1])[0]) for _ in range(count))


def texts(large):
    blocks = "".join(" a%sb" % c for c in CHARACTERS[::3] if ord(c) < 0x20000 or ord(c) % 64 == 0)
    added = " <mask> a cat, concat cat! <r>   x<|end|>  </s> <s>[MASK] I'LL it'\u017f\n\n\n  x\r\n\t 12345 "
    yield "blocks", blocks
    yield "in order", "".join(CHARACTERS[:0x10000])
    yield "mixed", mixed(60000)
    yield "marks", "".join(source.choices("aAE\u0300\u0301\u0323\u0327\u0334\u0345\u1100\u1161\u11a8\uac00\u0f71\u212b\ufb01 ", k=30000))
    yield "bytes", source.randbytes(100000).decode(errors="replace")
    yield "words", words(40000) + added
    if large:
        lines = Path(large).read_bytes().decode(errors="replace").splitlines(keepends=True)
        total = sum(map(len, lines))
        parts = max(1, total // 4000000)
        for i in range(parts):
            yield f"large, {i + 1} of {parts}", "".join(lines[len(lines) * i // parts:len(lines) * (i + 1) // parts])


def trained(model, trainer, corpus, normalizer=None, pre_tokenizer=None, decoder=None, tokens=()):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(corpus, trainer)
    if decoder:
        tokenizer.decoder = decoder
    tokenizer.add_tokens(list(tokens))
    return tokenizer


def byte_level(corpus, pre_tokenizer, ignore_merges=False, **more):
    trainer = trainers.BpeTrainer(vocab_size=3000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|end|>"], show_progress=False)
    return trained(models.BPE(ignore_merges=ignore_merges), trainer, corpus, pre_tokenizer=pre_tokenizer,
                   decoder=decoders.ByteLevel(), **more)


def by_expression(expression):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def tokenizers(corpus):
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    yield "gpt2", byte_level(corpus, gpt2)
    yield "roberta", byte_level(corpus, pre_tokenizers.ByteLevel(add_prefix_space=True), tokens=[
        AddedToken("<mask>", lstrip=True, normalized=False), AddedToken("cat", single_word=True),
        AddedToken("<r>", rstrip=True)])
    yield "llama3", byte_level(corpus, by_expression(LLAMA_3), ignore_merges=True)
    yield "qwen2", byte_level(corpus, by_expression(QWEN_2), normalizer=normalizers.NFC())
    yield "o200k", byte_level(corpus, by_expression(O200K))
    for lower in (True, False):
        trainer = trainers.WordPieceTrainer(vocab_size=3000, special_tokens=["[UNK]", "[MASK]"], show_progress=False)
        yield f"bert {lower}", trained(models.WordPiece(unk_token="[UNK]"), trainer, corpus,
                                       normalizers.BertNormalizer(lowercase=lower), pre_tokenizers.BertPreTokenizer(),
                                       decoders.WordPiece())
    fallback = [f"<0x{i:02X}>" for i in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=["<unk>", "<s>", "</s>", *fallback], show_progress=False)
    llama2 = trained(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True), trainer, corpus,
                     normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                     pre_tokenizers.Split("▁", "merged_with_next"))
    content = json.loads(llama2.to_str())
    content["added_tokens"] = content["added_tokens"][:3]
    content["pre_tokenizer"] = None
    llama2 = Tokenizer.from_str(json.dumps(content))
    llama2.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                        decoders.Strip(" ", 1, 0)])
    yield "llama2", llama2
    content["normalizer"] = None
    content["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    yield "mistral", Tokenizer.from_str(json.dumps(content))
    for fuses in (True, False):  # missing bytes
        gaps = json.loads(json.dumps(content))
        for byte in (0x80, 0xA9, 0xBF):
            gaps["model"]["vocab"][f"byte {byte} is missing"] = gaps["model"]["vocab"].pop(f"<0x{byte:02X}>")
        gaps["model"]["fuse_unk"] = fuses
        yield f"gaps, {fuses}", Tokenizer.from_str(json.dumps(gaps))
    content["model"]["byte_fallback"] = False
    yield "unknown", Tokenizer.from_str(json.dumps(content))
    trainer = trainers.UnigramTrainer(vocab_size=2000, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>",
                                      show_progress=False)
    pieces = [["<unk>", 0.0], ["▁", -2.0], ["a", -3.0], ["e", -3.0], ["th", -4.0]]
    pieces += [[f"<0x{i:02X}>", -9.0] for i in range(256) if i not in (0x80, 0xA9, 0xBF)]
    gaps = models.Unigram([tuple(piece) for piece in pieces], 0, True)
    gaps = Tokenizer(gaps)
    gaps.pre_tokenizer = pre_tokenizers.Metaspace()
    gaps.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    yield "unigram with gaps", gaps
    yield "t5", trained(models.Unigram(), trainer, corpus,
                        normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Lowercase(),
                                              normalizers.Replace(Regex(" {2,}"), " ")]),
                        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
                        decoders.Metaspace())
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False)
    yield "end of word", trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), trainer, corpus,
                                 normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(),
                                                       normalizers.StripAccents()]),
                                 pre_tokenizers.BertPreTokenizer(), decoders.BPEDecoder())


def clip(corpus, folder):
    """Writes vocab.json and merges.txt to the folder; returns their tokenizer."""
    trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=["<|startoftext|>", "<|endoftext|>"], show_progress=False,
                                  end_of_word_suffix="</w>", initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    cuts = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer = trained(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"), trainer, corpus,
                        normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "),
                                              normalizers.Lowercase()]), cuts)
    # The file of CLIP also contains every byte at the end of a word.
    content = json.loads(tokenizer.to_str())
    vocabulary = content["model"]["vocab"]
    for letter in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocabulary.setdefault(letter + "</w>", len(vocabulary))
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Replace("</w>", " "), decoders.Strip(" ", 0, 1)])
    tokenizer.model.save(str(folder))
    return tokenizer


class Comparison:
    """Counts the differences between PROGRAM and the package."""

    def __init__(self, program, folder, large):
        self.program, self.folder = program, folder
        self.given = [(name, text, folder / f"text-{i}") for i, (name, text) in enumerate(texts(large))]
        for _, text, path in self.given:
            path.write_bytes(text.encode())
        self.wrong = self.compared = 0

    def run(self, *arguments):
        return float(subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True, check=True).stdout)

    def report(self, what, same, more):
        self.wrong, self.compared = self.wrong + (not same), self.compared + 1
        print(f"{what}: {'the same' if same else 'DIFFERENT'}, {more}", flush=True)

    def encodings(self, kind, tokenizer, path):
        for name, text, file in self.given:
            begin = time.process_time()
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            seconds = time.process_time() - begin
            ours_seconds = self.run(path, file, self.folder / "ids", self.folder / "decoded")
            ours = array.array("i", (self.folder / "ids").read_bytes()).tolist()
            decoded = (self.folder / "decoded").read_bytes().decode(errors="replace")
            same = ours == ids and decoded == tokenizer.decode(ids, skip_special_tokens=False)
            size = file.stat().st_size / 1e6
            self.report(f"{kind}, {name}", same,
                      f"{len(ids)} ids, {size / ours_seconds:.2f} MB/s; the package {size / seconds:.2f} MB/s")

    def training(self, kind, cut, vocabulary, text):
        """Compares training. Rule of the package: the most frequent pair; among equals, the one with smaller ids."""
        source, path = self.folder / "train", self.folder / "trained.json"
        source.write_bytes(text.encode())
        ours_seconds = self.run("train", kind, cut, vocabulary, source, path)
        ours = Tokenizer.from_file(str(path))  # must be readable by the package
        if kind == "bpe":
            trainer = trainers.BpeTrainer(vocab_size=vocabulary, min_frequency=2, special_tokens=["<|endoftext|>"],
                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
            model = models.BPE()
        else:
            trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, min_frequency=2, show_progress=False,
                                                special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
            model = models.WordPiece(unk_token="[UNK]")
        theirs = Tokenizer(model)
        if ours.normalizer:
            theirs.normalizer = ours.normalizer
        theirs.pre_tokenizer = ours.pre_tokenizer
        begin = time.process_time()
        theirs.train_from_iterator([text], trainer)
        seconds = time.process_time() - begin
        same = json.loads(ours.to_str())["model"] == json.loads(theirs.to_str())["model"]
        if kind == "wordpiece":
            # The package numbers letters within words in the random order of a hash table, so its choice between
            # equally frequent pairs varies. Nearly all pairs must be equal.
            mine, other = set(ours.get_vocab()), set(theirs.get_vocab())
            same = len(mine) == len(other) and len(mine - other) <= len(mine) // 50
        self.report(f"trained {kind}, {cut}, {vocabulary}", same, f"{ours_seconds:.2f} s of a processor; the package {seconds:.2f} s")
        self.encodings(f"trained {kind}, {cut}", ours, path)


def main():
    program, folder, large = sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None
    corpus = words(30000).split("\n\n")
    comparison = Comparison(program, folder, large)
    for kind, tokenizer in tokenizers(corpus):
        path = folder / "tokenizer.json"
        tokenizer.save(str(path))
        comparison.encodings(kind, tokenizer, path)
    (folder / "clip").mkdir()
    comparison.encodings("clip", clip(corpus, folder / "clip"), folder / "clip")
    text = "\n\n".join(corpus)
    comparison.training("bpe", "gpt2", 3000, text + mixed(20000))
    comparison.training("bpe", "llama3", 3000, text + mixed(20000))
    comparison.training("wordpiece", "gpt2", 1500, text)
    print(f"{comparison.compared} compared, {comparison.wrong} different")
    sys.exit(comparison.wrong > 0)


if __name__ == "__main__":
    main()
