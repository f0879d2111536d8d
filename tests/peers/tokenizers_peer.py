#!/usr/bin/env python3
"""Tokenizers of the package `tokenizers`, for tests/tokenizers/peer_test.py.

    python tokenizers_peer.py PROGRAM FOLDER [TEXT]

Trains small ones of each kind on texts of its own, encodes characters of every Unicode block, random bytes and words (and
TEXT, a large file) with them and with PROGRAM, and ends with an error where ids or texts differ.

SPDX-License-Identifier: Apache-2.0
"""
import array
import json
import random
import subprocess
import sys
import time
from pathlib import Path

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
        yield "large", Path(large).read_bytes().decode(errors="replace")


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
    content["model"]["byte_fallback"] = False
    yield "unknown", Tokenizer.from_str(json.dumps(content))
    trainer = trainers.UnigramTrainer(vocab_size=2000, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>",
                                      show_progress=False)
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


def main():
    program, folder, large = sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None
    corpus = words(30000).split("\n\n")
    given, files = list(texts(large)), {}
    for i, (name, text) in enumerate(given):
        files[name] = folder / f"text-{i}"
        files[name].write_bytes(text.encode())
    wrong = compared = 0
    for kind, tokenizer in tokenizers(corpus):
        path = folder / "tokenizer.json"
        tokenizer.save(str(path))
        for name, text in given:
            begin = time.perf_counter()
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            seconds = time.perf_counter() - begin
            ran = subprocess.run([program, path, files[name], folder / "ids", folder / "decoded"], capture_output=True,
                                 text=True, check=True)
            ours = array.array("i", (folder / "ids").read_bytes()).tolist()
            decoded = (folder / "decoded").read_bytes().decode(errors="replace")
            same = ours == ids and decoded == tokenizer.decode(ids, skip_special_tokens=False)
            wrong, compared = wrong + (not same), compared + 1
            size = files[name].stat().st_size / 1e6
            print(f"{kind}, {name}: {'the same' if same else 'DIFFERENT'}, {len(ids)} ids, "
                  f"{size / float(ran.stdout):.2f} MB/s; the package {size / seconds:.2f} MB/s", flush=True)
    print(f"{compared} compared, {wrong} different")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
