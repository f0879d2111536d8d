#!/usr/bin/env python3
"""Writes unicode_tables.h: which characters belong to which class for the package `tokenizers`.

Its parts know Unicode of several years; the classes here are what its version 0.23 does with each
character alone, so that ids are the same also for characters that only some of the parts know.
It takes ten minutes.
    python3 tests/tokenizers/unicode_tables.py > framework/tokenizers/unicode_tables.h
"""
import json
import sys
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
PROPERTIES = ["L", "N", "P", "S", "M", "Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Mn"]


def of_property(expression):
    split = pre_tokenizers.Split(Regex(expression), "removed")
    found = set()
    for begin in range(0, len(CHARACTERS), 256):
        part = CHARACTERS[begin:begin + 256]
        left = {ord(x) for piece, _ in split.pre_tokenize_str("".join(map(chr, part))) for x in piece}
        found |= set(part) - left
    return found


def cut(pre_tokenizer):
    """The characters that do not stay in one piece with letters around them."""
    return {c for c in CHARACTERS if len(pre_tokenizer.pre_tokenize_str("a" + chr(c) + "b")) > 1}


def changed(normalizer):
    results = ((c, normalizer.normalize_str(chr(c))) for c in CHARACTERS)
    return {c: text for c, text in results if text != chr(c)}


def unordered():
    """Marks that normal forms leave where they are, though Unicode orders them."""
    nfd = normalizers.NFD()
    found = set()
    for c in CHARACTERS:
        order = unicodedata.combining(chr(c))
        if order > 1 and nfd.normalize_str("a" + chr(c) + "\u0334") == "a" + chr(c) + "\u0334":
            found.add(c)
        if order == 1 and nfd.normalize_str("a\u0301" + chr(c)) == "a\u0301" + chr(c):
            found.add(c)
    return found


def measure():
    bert = normalizers.BertNormalizer
    cleaned = changed(bert(True, False, False, False))
    return {
        **{p: sorted(of_property("\\p{%s}" % p)) for p in PROPERTIES},
        "numbers": sorted(cut(pre_tokenizers.Digits(True))),
        "punctuation": sorted(cut(pre_tokenizers.Punctuation())),
        "no_word": sorted(cut(pre_tokenizers.Whitespace())),
        "marks": sorted(changed(normalizers.StripAccents())),
        "accents": sorted(c for c, t in changed(bert(False, False, True, False)).items() if not t),
        "controls": sorted(c for c, t in cleaned.items() if not t),
        "lower": changed(normalizers.Lowercase()),
        "nfd": sorted(changed(normalizers.NFD())),
        "nfkd": sorted(changed(normalizers.NFKD())),
        "unordered": sorted(unordered()),
    }


def ranges(characters):
    found = []
    for c in sorted(characters):
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def table(name, what, characters):
    entries = ["{0x%X, 0x%X}" % (a, b) for a, b in ranges(characters)]
    text = f"\n// {what}\ninline constexpr CodePointRange {name}[] = {{\n"
    line = "   "
    for entry in entries:
        if len(line) + len(entry) > 97:
            text += line + "\n"
            line = "   "
        line += " " + entry + ","
    return text + line + "\n};\n"


def main():
    found = measure()
    categories = {c: unicodedata.category(chr(c)) for c in CHARACTERS}
    print("// Written by tests/tokenizers/unicode_tables.py: classes of characters as the package")
    print("// `tokenizers` has them. Each table is in ascending order.")
    print("#pragma once\n\n// clang-format off\nnamespace longspan {\n")
    print("struct CodePointRange {\n  char32_t first;\n  char32_t last;\n};")
    for name, what in [("numbers", "What Digits cuts off."),
                       ("punctuation", "What Punctuation and BertPreTokenizer cut off."),
                       ("marks", "What StripAccents removes."),
                       ("accents", "What BertNormalizer removes after decomposition."),
                       ("controls", "What BertNormalizer removes from unclean text.")]:
        print(table(f"tokenizer_{name}", what, found[name]), end="")
    words = set(CHARACTERS) - set(found["no_word"])
    print(table("tokenizer_words", r"\w of regular expressions.", words), end="")
    for form, kind in [("nfd", "canonical"), ("nfkd", "any")]:
        ours = {c for c in CHARACTERS if unicodedata.normalize(form.upper(), chr(c)) != chr(c)}
        extra = {0x32FF, 0x1E030} | set(range(0x1E031, 0x1E06E)) if form == "nfkd" else set()
        print(table(f"tokenizer_whole_{form}",
                    f"What has a decomposition ({kind}) that the package does not know.",
                    (ours | extra) - set(found[form])), end="")
    print(table("tokenizer_unordered", "Marks without an order among those of a character.",
                found["unordered"]), end="")
    print("\n// Small letters of capital ones that are newer than Unicode 14, by their distance.")
    print("struct SmallLetters {\n  CodePointRange capitals;\n  int distance;\n};")
    print("inline constexpr SmallLetters tokenizer_small_letters[] = {")
    newer = {int(c): ord(t) - int(c) for c, t in found["lower"].items()
             if len(t) == 1 and chr(int(c)).lower() == chr(int(c))}
    for distance in sorted(set(newer.values())):
        for a, b in ranges(c for c in newer if newer[c] == distance):
            print("    {{0x%X, 0x%X}, %d}," % (a, b, distance))
    print("};")
    print("\n// Characters of a general category that Unicode 14 did not have yet, for PCRE2.")
    print("struct NewerCharacters {\n  const char* category;\n  const char* ranges;\n};")
    print("inline constexpr NewerCharacters tokenizer_newer_characters[] = {")
    for name in PROPERTIES:
        old = {c for c in CHARACTERS if categories[c].startswith(name)}
        parts = [r"\\x{%X}-\\x{%X}" % (a, b) for a, b in ranges(set(found[name]) - old)]
        lines = ["".join(parts[i:i + 4]) for i in range(0, len(parts), 4)]
        print('    {"%s",' % name)
        print("\n".join('     "%s"' % line for line in lines or [""]) + "},")
    print("};\n\n}  // namespace longspan")


if __name__ == "__main__":
    sys.exit(main())
