#!/usr/bin/env python3
"""Writes label_cases.h: what seqeval says of spans (as conlleval counts them) and scikit-learn of classes.

    python3 -m venv V && V/bin/pip install seqeval==1.2.2 scikit-learn && V/bin/python make_label_cases.py >label_cases.h
"""
import random

from sklearn.metrics import accuracy_score, precision_recall_fscore_support
from seqeval.metrics import f1_score
from seqeval.scheme import BILOU, Entities
from seqeval.metrics.sequence_labeling import get_entities, precision_recall_fscore_support as span_scores

choose = random.Random(2)
BIO = ["O", "B-X", "I-X", "B-Y", "I-Y"]
BIOES = BIO + ["E-X", "S-X", "E-Y", "S-Y"]


def sentence(tags):  # any tag after any other, so that most sequences fit no scheme
    gold = [choose.choice(tags) for _ in range(choose.randint(1, 12))]
    return [tag if choose.random() < .8 else choose.choice(tags) for tag in gold], gold


def quoted(tags):
    return '"%s"' % " ".join(tags)


def spans(tags):
    return "{%s}" % ", ".join('{%d, %d, %d}' % ("XY".index(kind), begin, end + 1)
                              for kind, begin, end in get_entities(tags))


def row(values):
    return "{%s}" % ", ".join(repr(100 * float(value)) for value in values)


pairs = [sentence(BIO) for _ in range(15)] + [sentence(BIOES) for _ in range(25)]
print("// Made by make_label_cases.py with seqeval and scikit-learn: not to be edited.")
print("// clang-format off\n#pragma once\n\n#include <array>\n#include <string>\n#include <vector>\n")
print('#include "framework/metrics/spans.h"\n\nnamespace longspan::testing {\n')
print("// Types: X is 0, Y is 1.\nstruct SpanCase {\n  std::string predicted;\n  std::string reference;\n"
      "  std::vector<TagSpan> predicted_spans;\n  std::vector<TagSpan> reference_spans;\n};")
print("inline std::vector<SpanCase> span_cases() {\n  return {")
for predicted, gold in pairs:
    print("    {%s, %s,\n     %s,\n     %s}," % (quoted(predicted), quoted(gold), spans(predicted), spans(gold)))
print("  };\n}\n")
predicted, gold = [p for p, _ in pairs], [g for _, g in pairs]
each = span_scores(gold, predicted, average=None)
total = span_scores(gold, predicted, average="micro")
print("// Precision, recall and F1 in percent: of X, of Y, of all.")
print("inline std::array<std::array<double, 3>, 3> span_scores() {\n  return {{%s, %s, %s}};\n}\n" %
      (row(score[0] for score in each[:3]), row(score[1] for score in each[:3]), row(total[:3])))

labels = [choose.choice([0, 0, 1, 2, 2, 4]) for _ in range(80)]  # no label is 3
guesses = [label if choose.random() < .6 else choose.randrange(5) for label in labels]
print("inline std::vector<std::int64_t> class_labels() {\n  return {%s};\n}" % ", ".join(map(str, labels)))
print("inline std::vector<std::int64_t> class_guesses() {\n  return {%s};\n}" % ", ".join(map(str, guesses)))
scores = precision_recall_fscore_support(labels, guesses, labels=range(5), zero_division=0)
macro = precision_recall_fscore_support(labels, guesses, average="macro", zero_division=0)[2]
micro = precision_recall_fscore_support(labels, guesses, average="micro")[2]
print("// Accuracy, macro F1 over the classes that labels or guesses have, micro F1; then precision, recall and F1 of each class.")
print("inline std::vector<double> class_scores() {\n  return %s;\n}\n" % row(
    [accuracy_score(labels, guesses), macro, micro] + [scores[i][k] for k in range(5) for i in range(3)]))

# Schemes: (tags, seqeval's options).
SCHEMES = [
    ("O B-X I-X B-Y I-Y", {}),
    ("O I-X I-Y B-X", {}),
    ("O I-X E-X I-Y E-Y", {}),
    ("O B-X I-X E-X S-X B-Y I-Y E-Y S-Y", {}),
    ("O B I", {}),
    ("O B-X I-X B-Y I-Y PAD", {}),
    ("O B-X I-X X", {}),
    ("O B-X I-X B-Y I-Y S SPACE .", {}),
    ("O B-X-1 I-X-1 B-X-2 I-X-2", {}),
    ("O X-B X-I Y-B Y-I", {"suffix": True}),
    ("O B-X I-X L-X U-X B-Y I-Y L-Y U-Y", {"mode": "strict", "scheme": BILOU}),
    ("O B-X L-X U-X", {"mode": "strict", "scheme": BILOU}),
]


def spans_of(sentences, options):  # of each sentence after an O, so that none depends on the one before it
    if "scheme" in options:
        return {entity.to_tuple() for entities in Entities(sentences, BILOU).entities for entity in entities}
    return {(i, *span) for i, tags in enumerate(sentences) for span in get_entities(["O"] + tags, **options)}


print("// Precision, recall and F1 in percent over all spans, and how many are predicted and right.")
print("struct SchemeCase {\n  std::string tags;\n  std::vector<std::array<std::string, 2>> sentences;  // predicted, right\n"
      "  std::int64_t predicted;\n  std::int64_t reference;\n  std::array<double, 3> scores;\n};")
print("inline std::vector<SchemeCase> scheme_cases() {\n  return {")
for tags, options in SCHEMES:
    pairs = [sentence(tags.split()) for _ in range(30)]
    predicted, gold = [p for p, _ in pairs], [g for _, g in pairs]
    found, right = spans_of(predicted, options), spans_of(gold, options)
    f1 = 2 * len(found & right) / (len(found) + len(right))
    # seqeval's own F1 is the same but where the type "_" of a stray tag lets it go on into the next sentence.
    if "X" not in tags.split():
        assert abs(f1 - f1_score(gold, predicted, average="micro", **options)) < 1e-12, tags
    print("    {%s, {%s},\n     %d, %d, %s}," % (
        quoted(tags.split()), ", ".join("{%s, %s}" % (quoted(p), quoted(g)) for p, g in pairs), len(found), len(right),
        row([len(found & right) / len(found), len(found & right) / len(right), f1])))
print("  };\n}\n")
print("}  // namespace longspan::testing")
