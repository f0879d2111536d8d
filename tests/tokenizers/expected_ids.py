#!/usr/bin/env python3
"""Writes expected_ids.h: small tokenizers, texts, and their ids and decoded texts from the package `tokenizers`.

    python3 tests/tokenizers/expected_ids.py > tests/tokenizers/expected_ids.h
"""
import json

from tokenizers import Tokenizer

LETTERS = [chr(c) for c in range(33, 127)] + [chr(c) for c in range(161, 173)] + \
    [chr(c) for c in range(174, 256)] + [chr(c) for c in range(256, 324)]
LLAMA_3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def pairs(text):
    return [pair.split("+") for pair in text.split()]


def bpe(alphabet, merges, first=(), prefix="", **more):
    pieces = list(dict.fromkeys([*first, *alphabet, *(a + b[len(prefix):] for a, b in merges)]))
    return {"type": "BPE", "vocab": {p: i for i, p in enumerate(pieces)}, "merges": merges, **more}


def added(content, number, **more):
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True, **more}


def tokenizer(model, **more):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model, **more}


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
CUT = {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": LLAMA_3}, "behavior": "Isolated", "invert": False},
    {**BYTES, "use_regex": False}]}
ENGLISH = pairs("h+e l+l he+ll hell+o Ġ+w o+r Ġw+or Ġwor+l Ġworl+d '+s Ġ+Ġ Ã+© Ċ+Ċ 1+2 12+3")
BYTE_LEVEL = bpe(LETTERS, ENGLISH)
FALLBACK = [f"<0x{i:02X}>" for i in range(256)]
LLAMA_2 = bpe("▁abcdelorwh", pairs("▁+a l+l ▁+w o+r ▁w+or l+d ▁wor+ld h+e he+ll hell+o ▁+hello"),
              first=["<unk>", "<s>", "</s>", *FALLBACK], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
UNIGRAM = {"type": "Unigram", "unk_id": 2, "vocab": [
    ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["▁", -2.0], ["▁the", -3.0], ["▁hel", -5.5], ["lo", -4.5],
    ["▁hello", -9.0], ["l", -5.0], ["h", -5.1], ["e", -4.0], ["o", -4.2], ["t", -4.1], ["he", -4.4], ["ll", -6.0]]}
WORD_PIECE = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 12, "vocab": {p: i for i, p in enumerate(
                  ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "able", "!", ",", "cafe", "##s",
                   "中", "a", "##b"])}}
END_OF_WORD = bpe(["a", "b", "c", "a</w>", "b</w>", "c</w>"], pairs("a+b a+b</w> c+ab</w> b+c</w>"), first=["<unk>"],
                  unk_token="<unk>", end_of_word_suffix="</w>")
CONTINUED = bpe(["a", "b", "##a", "##b"], pairs("a+##b ##a+##b ab+##ab"), first=["[UNK]"], prefix="##",
                unk_token="[UNK]", continuing_subword_prefix="##")
WHOLE = {"type": "WordLevel", "unk_token": "?", "vocab": {
    p: i for i, p in enumerate(["?", "one", "two", "-", "--", "1", "2", "12", "!", "one-", "-two"])}}

MIXED = "hello world, hello's  world\n\n 123 1234é\u4e2d \u3000'S\t\r\n x\u00b2\u0660 \u1c8a"


def with_added(tokens):
    size = len(BYTE_LEVEL["vocab"])
    return [added("<s>", size), added("<mask>", size + 1, lstrip=True), added("<r>", size + 2, rstrip=True),
            added("cat", size + 3, special=False, single_word=True, normalized=True)][:tokens]


def split(behavior, inverted=False, pattern=None):
    return {"type": "Split", "pattern": pattern or {"String": "-"}, "behavior": behavior, "invert": inverted}


def cases():
    yield "ByteLevel", tokenizer(BYTE_LEVEL, pre_tokenizer=BYTES, decoder=BYTES), [MIXED, "", " ", "  a", "\n"]
    yield "PrefixSpace", tokenizer(BYTE_LEVEL, pre_tokenizer={**BYTES, "add_prefix_space": True}, decoder=BYTES), \
        ["world world"]
    yield "Llama3", tokenizer({**BYTE_LEVEL, "ignore_merges": True}, pre_tokenizer=CUT, decoder=BYTES), [MIXED]
    yield "AddedTokens", tokenizer(BYTE_LEVEL, pre_tokenizer=BYTES, decoder=BYTES, added_tokens=with_added(4)), \
        ["<s>hello  <mask> x <r>  y<s>", "cat concat cat's\u00e9cat cat", "<s", "  <mask>"]
    yield "FewLetters", tokenizer(bpe("ab\u0120", pairs("a+b \u0120+ab"), unk_token="ab"), pre_tokenizer=BYTES), \
        ["ab ab c ab"]
    llama_2 = {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "post_processor": {"type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "added_tokens": [added("<unk>", 0), added("<s>", 1), added("</s>", 2)]}
    yield "Llama2", tokenizer(LLAMA_2, **llama_2), ["hello world a\u00e9\n", "</s>a  b", "x"]
    yield "UnknownFused", tokenizer({**LLAMA_2, "byte_fallback": False}, **llama_2), ["hello xyz world"]
    yield "UnknownApart", tokenizer({**LLAMA_2, "byte_fallback": False, "fuse_unk": False}, **llama_2), \
        ["hello xyz world"]
    for scheme in ("always", "first", "never"):
        metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}
        yield "Unigram_" + scheme, tokenizer(UNIGRAM, pre_tokenizer=metaspace, decoder=metaspace, added_tokens=[
            added("</s>", 1)]), ["hello the  hello", "</s>the xyz", " hell\u00e9o"]
    for name, lower in (("Bert", True), ("BertCased", False)):
        yield name, tokenizer(
            WORD_PIECE, normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                                    "strip_accents": None, "lowercase": lower},
            pre_tokenizer={"type": "BertPreTokenizer"},
            decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
            post_processor={"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}), \
            ["UNaffable, caf\u00e9s!", "un\u4e2dable\u200b\u0007 a\u0301b", "abbbbbbbbbbbb abbbbbbbbbbb"]
    yield "EndOfWord", tokenizer(END_OF_WORD, pre_tokenizer={"type": "WhitespaceSplit"},
                                 decoder={"type": "BPEDecoder", "suffix": "</w>"}), ["ab cab bc xab", "a"]
    yield "Continued", tokenizer(CONTINUED, pre_tokenizer={"type": "WhitespaceSplit"}), ["abab ba abx"]
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for inverted in (False, True):
            yield f"Split{behavior}{inverted}", tokenizer(WHOLE, pre_tokenizer=split(behavior, inverted)), \
                ["one-two--one-", "--two"]
    for name, cut in (("Digits", {"type": "Digits", "individual_digits": True}),
                      ("DigitRuns", {"type": "Digits", "individual_digits": False}),
                      ("Words", {"type": "Whitespace"}),
                      ("Punctuation", {"type": "Punctuation", "behavior": "Contiguous"}),
                      ("Delimiter", {"type": "CharDelimiterSplit", "delimiter": "-"})):
        yield name, tokenizer(WHOLE, pre_tokenizer=cut), ["one12two", "one--two! 1", "12"]
    whole = {**WHOLE, "vocab": {p: i for i, p in enumerate(["?", "\u00c5", "A\u030a", "A", "fi", "\ufb01", "a", "i\u0307"])}}
    for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Nmt"):
        more = {"strip_left": True, "strip_right": True} if kind == "Strip" else {}
        yield kind, tokenizer(whole, normalizer={"type": kind, **more}), \
            ["\u212b", "A\u030a", "\u00c5", "\ufb01", "\u0130", " a\n", "\u0001a"]


def raw(text):
    return 'R"json(' + text + ')json"'


def quoted(data):
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else "\\%03o" % b for b in data) + '"'


def main():
    print("// Written by tests/tokenizers/expected_ids.py.\n#pragma once\n\n#include <cstdint>\n#include <string>")
    print("#include <vector>\n\n// clang-format off\nnamespace longspan {\n")
    print("struct ExpectedText {\n  std::string text;\n  std::vector<std::int64_t> ids;\n"
          "  std::vector<std::int64_t> with_template;\n  std::string decoded;\n};")
    print("struct ExpectedTokenizer {\n  std::string name;\n  std::string json;\n"
          "  std::vector<ExpectedText> texts;\n};\n")
    print("inline std::vector<ExpectedTokenizer> expected_tokenizers() {\n  return {")
    for name, content, texts in cases():
        package = Tokenizer.from_str(json.dumps(content))
        text = json.dumps(content)
        parts = [raw(text[i:i + 8000]) for i in range(0, len(text), 8000)]
        print('    {"%s",\n     %s,\n     {' % (name, "\n     ".join(parts)))
        for text in texts:
            ids = package.encode(text, add_special_tokens=False).ids
            whole = package.encode(text).ids
            decoded = package.decode(ids, skip_special_tokens=False)
            print("      {%s, {%s}, {%s}, %s}," % (quoted(text.encode()), ", ".join(map(str, ids)),
                                                ", ".join(map(str, whole)), quoted(decoded.encode())))
        print("     }},")
    print("  };\n}\n\n}  // namespace longspan")


if __name__ == "__main__":
    main()
