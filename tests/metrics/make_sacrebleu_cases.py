#!/usr/bin/env python3
"""Writes sacrebleu_cases.h: what sacreBLEU itself makes of texts that are hard to tokenise.

    python3 -m venv V && V/bin/pip install sacrebleu==2.6.0 && V/bin/python make_sacrebleu_cases.py >sacrebleu_cases.h
"""
import random

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

WRITTEN = [  # hypothesis, references
    ("The cat sat on the mat.", ["The cat sat on the mat."]),
    ("the the the the the the the", ["The cat is on the mat.", "There is a cat on the mat."]),
    ("It costs 1,000.50 dollars, i.e. 3-4% more.", ["It costs 1,000.5 dollars, that is 3-4% more..."]),
    ("a .b ,c .5 5. ,5 5, 1.2.3 ...", ["a.b,c.5 5., 5,5 1.2.3..."]),
    ("0-1 a-b 5-a a-5 5--6 -7- 8-", ["0 - 1 a - b 5 -a a- 5 5 -- 6 - 7 - 8 -"]),
    ("&quot;x&quot; &amp;lt; &lt;y&gt; &amp;amp; &", ['"x" < <y> & &']),
    ("<skipped> a <skip<skipped>ped> b-\nc\nd -\n", ["a b c d"]),
    ("don't `stop' \"now\" {or} [never] a|b ~c^d_e\\f", ["don 't ` stop ' \" now \""]),
    ("na\u00efve caf\u00e9s \u2014 \u00abbon\u00bb, \u201cgut\u201d. \u0663\u0664.\u0665", ["naive cafes - bon, gut. 34.5"]),
    ("\u4f60\u597d\uff0c\u4e16\u754c\u3002 \u3053\u3093\u306b\u3061\u306f.", ["\u4f60\u597d\u4e16\u754c. \u3053\u3093\u306b\u3061\u306f"]),
    ("a\u00a0b\u3000c\u2003d\x85e\x1cf\tg\u200bh", ["a b c d e f g h", "a\u200bb"]),
    ("\U0001f600.\U0001f600,\U0001f600 -\u0301.e\u0301", ["\U0001f600 \U0001f600 e\u0301", "\u00e9"]),
    ("(hi) hi) (hi -- ! ?! a! !a \u00e9! !\u00e9 \u2026", ["( hi ) hi ( hi - - ! ? ! a ! \u00e9 !"]),
    ("", ["A reference without a hypothesis."]),
    ("A hypothesis without a reference.", [""]),
    ("", [""]),
    ("   ", ["x", " "]),
    ("\u6211\u4eec\u53bb\u5317\u4eac\u5929\u5b89\u95e8\u3002", ["\u6211\u4eec\u53bb\u5317\u4eac\u5929\u5b89\u95e8\u3002"]),
    (" \uff08\u5b83\u82b1\u4e861,000.5\u5143\uff09 .5 5. ", ["\u5b83\u82b1\u4e86 1,000.5 \u5143. 5."]),
    ("\u2000\u2001\u2603x\u2a6dy\u2a6ez\u9fbb\u9fbc\u2f80\u2f81\u2fa1\u2fa2 \U00020000\u30a2\uff71\uac00", ["\u2603 x \u2a6d y \u30a2"]),
    ("one", ["one"]),
    ("one two", ["one two", "one two three"]),
    ("a b c d e f", ["a b c d", "a b c d e f g h"]),
    ("completely different words here", ["nothing is shared by these"]),
    ("ab\udc80c \udcff. \udce2\udc82. \udced\udca0\udc80", ["ab\udc80c \udce2\udc82 .", "\udcff"]),
]
PIECES = list("abc.,-'\"&;<> 0159!)(/") + [
    "the ", "cat ", "word ", "-\n", "\n", "\u00e9", "\u00a0", "\u3000", "\u0663", "\u4e16", "\U0001f600", "\u0301",
    "&amp;", "&lt;", "&quot;", "<skipped>", " ", " ", ". ", ", "]


def fuzzed(count):
    choose = random.Random(1)
    for _ in range(count):
        reference = [choose.choice(PIECES) for _ in range(choose.randint(1, 30))]
        texts = []
        for _ in range(choose.choice([2, 2, 3])):
            text = [choose.choice(PIECES) if choose.random() < .2 else piece
                    for piece in reference if choose.random() < .9]
            texts.append("".join(text))
        yield texts[0], texts[1:]


def quoted(text):
    plain = set(range(32, 127)) - set(b'"\\?')
    letters = "".join(chr(c) if c in plain else "\\%03o" % c for c in text.encode("utf-8", "surrogateescape"))
    return '"%s"' % letters


def numbers(values):
    return "{%s}" % ", ".join(repr(value) for value in values)


BLEUS = [BLEU(effective_order=True), BLEU(smooth_method="floor", effective_order=True),
         BLEU(smooth_method="add-k"), BLEU(smooth_method="none", effective_order=True), BLEU(tokenize="none", force=True),
         BLEU(tokenize="char", force=True), BLEU(tokenize="zh", force=True)]
CHRFS = [CHRF(), CHRF(word_order=2)]


def scores(hypotheses, references):
    """references: for each hypothesis its list, all of one length or padded with None."""
    streams = list(zip(*references))
    usual = BLEU(force=True).corpus_score(hypotheses, streams)
    counts = [usual.sys_len, usual.ref_len] + list(usual.counts) + list(usual.totals)
    bleus = [bleu.corpus_score(hypotheses, streams).score for bleu in BLEUS]
    chrfs = [chrf.corpus_score(hypotheses, streams).score for chrf in CHRFS]
    return "%s,\n     %s, %s" % (numbers(counts), numbers([usual.score] + bleus), numbers(chrfs))


def main():
    cases = WRITTEN + list(fuzzed(40))
    print("// Made by make_sacrebleu_cases.py with sacreBLEU %s: not to be edited." % sacrebleu.__version__)
    print("// clang-format off\n#pragma once\n\n#include <array>\n#include <cstdint>\n#include <string>\n#include <vector>\n")
    print("namespace longspan::testing {\n")
    print("// counts: hypothesis and reference tokens, matches, totals. bleu: as usual; then with the effective order\n"
          "// exponential and floor; add-k; without smoothing, with the effective order; as usual of words between\n"
          "// white space, of characters, and of Chinese. chrf: chrF and chrF++.")
    print("struct SacreBleuScores {\n  std::array<std::int64_t, 10> counts;\n  std::array<double, 8> bleu;\n"
          "  std::array<double, 2> chrf;\n};")
    print("struct SacreBleuCase {\n  std::string hypothesis;\n  std::vector<std::string> references;\n"
          "  std::string tokens;   // of the hypothesis, 13a\n  std::string chinese;  // likewise, zh\n  SacreBleuScores scores;\n};\n")
    print("inline std::vector<SacreBleuCase> sacrebleu_cases() {\n  return {")
    tokenize, tokenize_zh = Tokenizer13a(), TokenizerZh()
    for hypothesis, references in cases:
        print("    {%s,\n     {%s},\n     %s,\n     %s,\n     {%s}}," % (
            quoted(hypothesis), ", ".join(map(quoted, references)), quoted(tokenize(hypothesis)), quoted(tokenize_zh(hypothesis)),
            scores([hypothesis], [references])))
    print("  };\n}\n")
    most = max(len(references) for _, references in cases)
    padded = [references + [None] * (most - len(references)) for _, references in cases]
    print("// Of all of them as one corpus.\ninline SacreBleuScores sacrebleu_corpus() {\n  return {%s};\n}\n" %
          scores([hypothesis for hypothesis, _ in cases], padded))
    print("}  // namespace longspan::testing")


main()
