#!/usr/bin/env python3
"""Writes label_cases.h: what seqeval says of spans (as conlleval counts them) and scikit-learn of classes.

    python3 -m venv V && V/bin/pip install seqeval==1.2.2 scikit-learn && V/bin/python make_label_cases.py >label_cases.h
"""
import random

from sklearn.metrics import accuracy_score, precision_recall_fscore_support
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
macro = precision_recall_fscore_support(labels, guesses, labels=sorted(set(labels)), average="macro")[2]
micro = precision_recall_fscore_support(labels, guesses, average="micro")[2]
print("// Accuracy, macro F1 over the classes that labels have, micro F1; then precision, recall and F1 of each class.")
print("inline std::vector<double> class_scores() {\n  return %s;\n}\n" % row(
    [accuracy_score(labels, guesses), macro, micro] + [scores[i][k] for k in range(5) for i in range(3)]))
print("}  // namespace longspan::testing")
