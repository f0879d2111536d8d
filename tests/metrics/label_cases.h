// Made by make_label_cases.py with seqeval and scikit-learn: not to be edited.
// clang-format off
#pragma once

#include <array>
#include <string>
#include <vector>

#include "framework/metrics/spans.h"

namespace longspan::testing {

// Types: X is 0, Y is 1.
struct SpanCase {
  std::string predicted;
  std::string reference;
  std::vector<TagSpan> predicted_spans;
  std::vector<TagSpan> reference_spans;
};
inline std::vector<SpanCase> span_cases() {
  return {
    {"O", "O",
     {},
     {}},
    {"I-X I-X I-Y", "I-X I-X I-Y",
     {{0, 0, 2}, {1, 2, 3}},
     {{0, 0, 2}, {1, 2, 3}}},
    {"O I-Y B-Y I-Y B-X I-Y I-X", "B-Y I-Y I-X I-Y B-Y I-Y I-X",
     {{1, 1, 2}, {1, 2, 4}, {0, 4, 5}, {1, 5, 6}, {0, 6, 7}},
     {{1, 0, 2}, {0, 2, 3}, {1, 3, 4}, {1, 4, 6}, {0, 6, 7}}},
    {"B-X", "B-X",
     {{0, 0, 1}},
     {{0, 0, 1}}},
    {"I-Y I-Y B-Y", "I-Y I-Y I-X",
     {{1, 0, 2}, {1, 2, 3}},
     {{1, 0, 2}, {0, 2, 3}}},
    {"I-Y I-X I-Y I-X I-X B-Y I-X B-Y B-Y I-Y B-X B-Y", "I-Y I-X I-Y I-X I-X B-Y B-X B-Y B-Y I-Y B-X B-Y",
     {{1, 0, 1}, {0, 1, 2}, {1, 2, 3}, {0, 3, 5}, {1, 5, 6}, {0, 6, 7}, {1, 7, 8}, {1, 8, 10}, {0, 10, 11}, {1, 11, 12}},
     {{1, 0, 1}, {0, 1, 2}, {1, 2, 3}, {0, 3, 5}, {1, 5, 6}, {0, 6, 7}, {1, 7, 8}, {1, 8, 10}, {0, 10, 11}, {1, 11, 12}}},
    {"B-X I-Y I-X B-Y I-X I-X I-Y B-X O I-Y I-Y I-Y", "B-X I-Y I-X B-Y I-X I-X I-Y I-Y I-Y I-Y I-Y I-Y",
     {{0, 0, 1}, {1, 1, 2}, {0, 2, 3}, {1, 3, 4}, {0, 4, 6}, {1, 6, 7}, {0, 7, 8}, {1, 9, 12}},
     {{0, 0, 1}, {1, 1, 2}, {0, 2, 3}, {1, 3, 4}, {0, 4, 6}, {1, 6, 12}}},
    {"O I-Y B-Y O", "O I-Y B-X I-X",
     {{1, 1, 2}, {1, 2, 3}},
     {{1, 1, 2}, {0, 2, 4}}},
    {"I-X", "I-X",
     {{0, 0, 1}},
     {{0, 0, 1}}},
    {"O O O O", "O O O O",
     {},
     {}},
    {"B-X I-Y B-X", "B-X I-Y O",
     {{0, 0, 1}, {1, 1, 2}, {0, 2, 3}},
     {{0, 0, 1}, {1, 1, 2}}},
    {"O", "O",
     {},
     {}},
    {"B-Y B-X I-X B-Y O I-X B-Y I-Y B-X O", "O I-X I-X B-Y O I-X B-Y I-Y I-Y O",
     {{1, 0, 1}, {0, 1, 3}, {1, 3, 4}, {0, 5, 6}, {1, 6, 8}, {0, 8, 9}},
     {{0, 1, 3}, {1, 3, 4}, {0, 5, 6}, {1, 6, 9}}},
    {"B-Y I-Y I-X B-X I-X I-X I-X", "B-Y I-Y I-X B-X I-X I-X I-X",
     {{1, 0, 2}, {0, 2, 3}, {0, 3, 7}},
     {{1, 0, 2}, {0, 2, 3}, {0, 3, 7}}},
    {"B-X O O", "B-X O B-Y",
     {{0, 0, 1}},
     {{0, 0, 1}, {1, 2, 3}}},
    {"B-Y E-Y B-X I-Y", "B-Y E-Y B-X I-Y",
     {{1, 0, 2}, {0, 2, 3}, {1, 3, 4}},
     {{1, 0, 2}, {0, 2, 3}, {1, 3, 4}}},
    {"I-Y S-X I-Y S-Y O I-X", "I-Y S-X I-Y S-Y O I-X",
     {{1, 0, 1}, {0, 1, 2}, {1, 2, 3}, {1, 3, 4}, {0, 5, 6}},
     {{1, 0, 1}, {0, 1, 2}, {1, 2, 3}, {1, 3, 4}, {0, 5, 6}}},
    {"B-Y B-X B-Y", "B-Y B-X B-Y",
     {{1, 0, 1}, {0, 1, 2}, {1, 2, 3}},
     {{1, 0, 1}, {0, 1, 2}, {1, 2, 3}}},
    {"I-X E-Y B-Y S-X E-X S-Y E-X O S-X", "S-X B-Y B-Y S-X S-X S-Y O O S-X",
     {{0, 0, 1}, {1, 1, 2}, {1, 2, 3}, {0, 3, 4}, {0, 4, 5}, {1, 5, 6}, {0, 6, 7}, {0, 8, 9}},
     {{0, 0, 1}, {1, 1, 2}, {1, 2, 3}, {0, 3, 4}, {0, 4, 5}, {1, 5, 6}, {0, 8, 9}}},
    {"B-X I-Y", "B-X I-Y",
     {{0, 0, 1}, {1, 1, 2}},
     {{0, 0, 1}, {1, 1, 2}}},
    {"E-Y", "E-Y",
     {{1, 0, 1}},
     {{1, 0, 1}}},
    {"E-Y E-Y B-Y B-X O I-Y O E-X I-Y B-X S-X", "E-Y E-Y B-Y B-X O I-Y O E-X I-Y B-X B-Y",
     {{1, 0, 1}, {1, 1, 2}, {1, 2, 3}, {0, 3, 4}, {1, 5, 6}, {0, 7, 8}, {1, 8, 9}, {0, 9, 10}, {0, 10, 11}},
     {{1, 0, 1}, {1, 1, 2}, {1, 2, 3}, {0, 3, 4}, {1, 5, 6}, {0, 7, 8}, {1, 8, 9}, {0, 9, 10}, {1, 10, 11}}},
    {"B-X O E-Y O", "B-X O E-Y O",
     {{0, 0, 1}, {1, 2, 3}},
     {{0, 0, 1}, {1, 2, 3}}},
    {"I-Y E-Y S-Y E-Y S-X E-Y", "I-Y E-Y S-Y E-Y S-X E-Y",
     {{1, 0, 2}, {1, 2, 3}, {1, 3, 4}, {0, 4, 5}, {1, 5, 6}},
     {{1, 0, 2}, {1, 2, 3}, {1, 3, 4}, {0, 4, 5}, {1, 5, 6}}},
    {"S-X B-X B-X E-X I-X S-Y I-X S-X S-X B-X O I-X", "B-X B-X B-X E-X I-X S-Y I-X S-X B-X B-X O I-X",
     {{0, 0, 1}, {0, 1, 2}, {0, 2, 4}, {0, 4, 5}, {1, 5, 6}, {0, 6, 7}, {0, 7, 8}, {0, 8, 9}, {0, 9, 10}, {0, 11, 12}},
     {{0, 0, 1}, {0, 1, 2}, {0, 2, 4}, {0, 4, 5}, {1, 5, 6}, {0, 6, 7}, {0, 7, 8}, {0, 8, 9}, {0, 9, 10}, {0, 11, 12}}},
    {"E-X I-X E-Y B-Y S-X", "I-X I-X E-Y B-Y S-X",
     {{0, 0, 1}, {0, 1, 2}, {1, 2, 3}, {1, 3, 4}, {0, 4, 5}},
     {{0, 0, 2}, {1, 2, 3}, {1, 3, 4}, {0, 4, 5}}},
    {"I-X", "S-X",
     {{0, 0, 1}},
     {{0, 0, 1}}},
    {"S-Y O E-X I-Y B-X I-Y B-Y", "S-Y O E-Y I-Y S-X I-Y S-X",
     {{1, 0, 1}, {0, 2, 3}, {1, 3, 4}, {0, 4, 5}, {1, 5, 6}, {1, 6, 7}},
     {{1, 0, 1}, {1, 2, 3}, {1, 3, 4}, {0, 4, 5}, {1, 5, 6}, {0, 6, 7}}},
    {"O S-X S-X O E-X E-Y S-X B-Y I-X", "B-Y S-X S-X O E-X E-Y S-Y E-Y I-X",
     {{0, 1, 2}, {0, 2, 3}, {0, 4, 5}, {1, 5, 6}, {0, 6, 7}, {1, 7, 8}, {0, 8, 9}},
     {{1, 0, 1}, {0, 1, 2}, {0, 2, 3}, {0, 4, 5}, {1, 5, 6}, {1, 6, 7}, {1, 7, 8}, {0, 8, 9}}},
    {"B-Y B-X I-X S-Y B-X E-Y I-Y S-Y I-X E-Y", "B-Y E-Y I-X O S-X E-Y I-Y S-Y I-X E-Y",
     {{1, 0, 1}, {0, 1, 3}, {1, 3, 4}, {0, 4, 5}, {1, 5, 6}, {1, 6, 7}, {1, 7, 8}, {0, 8, 9}, {1, 9, 10}},
     {{1, 0, 2}, {0, 2, 3}, {0, 4, 5}, {1, 5, 6}, {1, 6, 7}, {1, 7, 8}, {0, 8, 9}, {1, 9, 10}}},
    {"E-Y O B-X E-X I-X S-X E-X I-X E-Y", "E-Y O B-X E-X I-X S-X I-Y I-X O",
     {{1, 0, 1}, {0, 2, 4}, {0, 4, 5}, {0, 5, 6}, {0, 6, 7}, {0, 7, 8}, {1, 8, 9}},
     {{1, 0, 1}, {0, 2, 4}, {0, 4, 5}, {0, 5, 6}, {1, 6, 7}, {0, 7, 8}}},
    {"I-Y E-Y I-X E-Y", "I-Y E-Y I-X E-Y",
     {{1, 0, 2}, {0, 2, 3}, {1, 3, 4}},
     {{1, 0, 2}, {0, 2, 3}, {1, 3, 4}}},
    {"I-Y E-X I-Y I-X S-Y B-X", "I-Y E-X I-Y S-X S-Y B-X",
     {{1, 0, 1}, {0, 1, 2}, {1, 2, 3}, {0, 3, 4}, {1, 4, 5}, {0, 5, 6}},
     {{1, 0, 1}, {0, 1, 2}, {1, 2, 3}, {0, 3, 4}, {1, 4, 5}, {0, 5, 6}}},
    {"O B-Y E-Y S-Y B-Y", "O B-Y E-Y S-Y B-Y",
     {{1, 1, 3}, {1, 3, 4}, {1, 4, 5}},
     {{1, 1, 3}, {1, 3, 4}, {1, 4, 5}}},
    {"B-Y E-X E-Y E-Y B-Y E-X", "B-Y E-X E-X B-X E-X E-Y",
     {{1, 0, 1}, {0, 1, 2}, {1, 2, 3}, {1, 3, 4}, {1, 4, 5}, {0, 5, 6}},
     {{1, 0, 1}, {0, 1, 2}, {0, 2, 3}, {0, 3, 5}, {1, 5, 6}}},
    {"B-X B-Y E-Y", "B-X B-Y E-Y",
     {{0, 0, 1}, {1, 1, 3}},
     {{0, 0, 1}, {1, 1, 3}}},
    {"I-X E-X B-Y I-Y S-Y S-X", "I-X I-X B-Y I-Y S-Y S-X",
     {{0, 0, 2}, {1, 2, 4}, {1, 4, 5}, {0, 5, 6}},
     {{0, 0, 2}, {1, 2, 4}, {1, 4, 5}, {0, 5, 6}}},
    {"E-X S-X E-X I-X B-X E-X I-Y S-X E-Y I-X S-X E-X", "E-X S-X I-Y S-Y B-X E-X I-Y S-X E-Y I-X I-Y E-X",
     {{0, 0, 1}, {0, 1, 2}, {0, 2, 3}, {0, 3, 4}, {0, 4, 6}, {1, 6, 7}, {0, 7, 8}, {1, 8, 9}, {0, 9, 10}, {0, 10, 11}, {0, 11, 12}},
     {{0, 0, 1}, {0, 1, 2}, {1, 2, 3}, {1, 3, 4}, {0, 4, 6}, {1, 6, 7}, {0, 7, 8}, {1, 8, 9}, {0, 9, 10}, {1, 10, 11}, {0, 11, 12}}},
    {"I-X E-X E-X B-Y E-Y B-X I-X B-Y", "I-X E-X E-X B-Y E-Y B-X I-X B-Y",
     {{0, 0, 2}, {0, 2, 3}, {1, 3, 5}, {0, 5, 7}, {1, 7, 8}},
     {{0, 0, 2}, {0, 2, 3}, {1, 3, 5}, {0, 5, 7}, {1, 7, 8}}},
    {"O I-X I-X E-X S-X E-Y", "O I-X I-X B-X S-X E-Y",
     {{0, 1, 4}, {0, 4, 5}, {1, 5, 6}},
     {{0, 1, 3}, {0, 3, 4}, {0, 4, 5}, {1, 5, 6}}},
  };
}

// Precision, recall and F1 in percent: of X, of Y, of all.
inline std::array<std::array<double, 3>, 3> span_scores() {
  return {{{80.68181818181817, 87.65432098765432, 84.02366863905326}, {80.48780487804879, 80.48780487804879, 80.48780487804878}, {80.58823529411765, 84.04907975460122, 82.28228228228228}}};
}

inline std::vector<std::int64_t> class_labels() {
  return {2, 0, 0, 2, 2, 2, 2, 1, 2, 2, 2, 0, 2, 2, 2, 4, 2, 2, 4, 2, 0, 2, 2, 2, 2, 0, 0, 2, 2, 0, 0, 4, 2, 0, 0, 2, 1, 2, 4, 0, 1, 0, 4, 1, 0, 0, 0, 0, 2, 4, 0, 1, 4, 2, 0, 2, 0, 0, 2, 0, 2, 0, 0, 4, 2, 2, 0, 0, 0, 2, 0, 2, 1, 4, 2, 0, 0, 1, 2, 0};
}
inline std::vector<std::int64_t> class_guesses() {
  return {2, 0, 0, 2, 2, 2, 2, 3, 4, 2, 1, 0, 1, 1, 2, 4, 2, 2, 4, 2, 0, 2, 2, 2, 2, 0, 0, 2, 2, 0, 0, 1, 2, 0, 0, 2, 1, 2, 4, 0, 1, 4, 4, 0, 0, 1, 0, 3, 1, 4, 0, 4, 4, 2, 0, 3, 0, 2, 0, 0, 2, 0, 0, 4, 1, 2, 0, 0, 3, 3, 0, 2, 1, 4, 2, 0, 0, 1, 2, 3};
}
// Accuracy, macro F1 over the classes that labels or guesses have, micro F1; then precision, recall and F1 of each class.
inline std::vector<double> class_scores() {
  return {76.25, 58.6984126984127, 76.25, 92.3076923076923, 80.0, 85.71428571428571, 36.36363636363637, 57.14285714285714, 44.44444444444444, 96.15384615384616, 73.52941176470588, 83.33333333333334, 0.0, 0.0, 0.0, 72.72727272727273, 88.88888888888889, 80.0};
}

// Precision, recall and F1 in percent over all spans, and how many are predicted and right.
struct SchemeCase {
  std::string tags;
  std::vector<std::array<std::string, 2>> sentences;  // predicted, right
  std::int64_t predicted;
  std::int64_t reference;
  std::array<double, 3> scores;
};
inline std::vector<SchemeCase> scheme_cases() {
  return {
    {"O B-X I-X B-Y I-Y", {{"I-Y I-X B-X I-X", "I-Y I-Y B-X I-X"}, {"O", "B-X"}, {"I-Y I-X I-X B-Y O B-Y", "I-Y I-X I-X B-Y O B-Y"}, {"B-X I-Y B-Y B-X O B-Y I-Y", "O I-Y B-Y I-X O B-Y B-Y"}, {"B-Y O B-Y B-X I-X I-Y O I-X O B-X", "B-Y I-Y B-Y B-X B-X I-Y O I-X B-X B-X"}, {"O O B-Y B-Y B-Y B-X I-Y I-X O", "O O B-Y B-Y B-Y B-X I-Y I-X O"}, {"B-X B-X I-X", "B-X B-X I-X"}, {"O I-Y I-Y O B-X", "O I-Y I-Y O B-X"}, {"I-X I-X I-X I-Y O O I-Y I-X I-X", "I-X I-X O I-Y I-X O I-Y I-X I-X"}, {"O O I-Y I-Y I-X B-Y B-Y O I-Y", "O O I-Y I-Y I-Y B-Y B-Y B-Y B-X"}, {"O O I-X O", "B-Y O I-X O"}, {"B-X O I-Y I-X I-Y B-X O I-Y I-Y B-Y B-Y B-Y", "B-Y O I-Y I-X I-Y B-X O I-Y I-Y I-Y B-Y B-Y"}, {"I-X B-X O", "I-X B-X O"}, {"I-Y I-X B-Y B-Y B-Y B-X B-Y", "I-Y I-X B-Y B-Y B-Y B-X B-Y"}, {"O I-Y B-Y I-Y B-Y", "O I-Y B-Y I-Y I-X"}, {"B-X I-Y O B-X B-Y I-X I-X B-Y B-Y I-Y B-X", "B-X I-Y I-Y B-X B-Y I-X I-X B-Y O I-Y B-X"}, {"I-X I-Y I-X B-X B-X I-X B-X B-Y B-Y B-Y B-X I-X", "I-X I-Y I-X B-X B-X B-X B-X B-Y B-Y B-Y B-X B-Y"}, {"I-Y I-X B-Y B-X I-Y O", "I-Y I-X B-Y B-X I-X O"}, {"I-X", "I-X"}, {"O O I-X B-Y B-Y I-Y O B-Y I-Y B-X B-X I-Y", "O O I-X B-Y B-Y I-Y O B-Y I-Y B-X B-X I-Y"}, {"B-X I-Y I-Y", "B-X I-Y I-Y"}, {"I-Y B-X I-Y B-X O", "I-Y B-X I-Y B-X O"}, {"I-Y B-X B-Y I-Y O B-X B-X B-X O I-Y O B-Y", "I-Y B-X B-Y I-Y O B-X B-X B-X O I-Y O B-Y"}, {"B-Y O I-X", "B-Y O I-X"}, {"I-X I-X O I-Y I-Y B-X I-Y B-Y B-X", "I-X I-X O I-Y I-Y B-X O B-Y B-X"}, {"I-Y B-X B-X B-X O I-X O I-X O I-X O I-Y", "O B-X B-X B-X O I-X O I-X O I-X O I-Y"}, {"B-Y", "B-X"}, {"I-X B-Y I-X B-X I-Y B-X B-X", "I-X B-Y I-X I-X O B-X O"}, {"B-X I-Y", "B-X I-Y"}, {"I-X B-X B-Y B-X I-Y O", "O B-X B-Y B-X B-Y O"}},
     135, 133, {79.25925925925927, 80.45112781954887, 79.8507462686567}},
    {"O I-X I-Y B-X", {{"B-X I-X B-X", "B-X I-X B-X"}, {"O O I-X I-X O I-Y I-X I-Y I-X B-X", "O O I-X I-X O I-Y I-X I-X I-X B-X"}, {"I-X I-X I-Y I-X", "O I-X I-X I-X"}, {"O O B-X O O O I-X B-X", "O O B-X O O O I-X B-X"}, {"I-Y I-Y I-X B-X", "I-Y I-Y B-X B-X"}, {"B-X B-X B-X I-Y O I-Y I-X", "I-Y B-X B-X I-Y O O I-Y"}, {"I-X I-Y I-X B-X", "B-X I-X I-X B-X"}, {"I-Y I-X", "I-Y I-X"}, {"B-X", "B-X"}, {"I-Y I-X I-X B-X I-X I-X I-X", "I-Y I-X I-X B-X I-X I-X I-X"}, {"O O B-X I-X I-Y I-Y O B-X I-Y I-X B-X O", "O O B-X I-X I-Y I-Y O B-X I-Y I-X B-X O"}, {"I-Y O B-X O B-X O I-X", "I-Y O I-X O B-X O I-X"}, {"O O O I-X O O", "O O O I-X O O"}, {"O B-X I-X B-X O", "O B-X I-X B-X O"}, {"I-X O O I-X", "I-X O I-X I-X"}, {"I-X I-X", "I-X I-X"}, {"I-X I-X I-Y O I-Y B-X O I-X B-X B-X I-Y", "I-X I-X I-X O I-Y B-X I-X I-X I-X B-X I-Y"}, {"I-Y I-Y B-X B-X O I-X I-X O O B-X", "I-Y I-Y B-X B-X O I-X I-X I-X O B-X"}, {"O I-Y O", "I-X I-Y B-X"}, {"I-X I-Y", "I-X I-Y"}, {"I-X B-X I-X O O I-X O I-Y O", "I-X I-X I-X O O O O B-X O"}, {"I-Y B-X I-X I-Y I-X I-X I-Y O O", "I-Y O I-X I-Y I-X O I-X O O"}, {"I-Y O I-X B-X O B-X O B-X O I-Y I-X I-Y", "I-Y O I-X I-X O B-X I-Y B-X O I-Y I-X I-Y"}, {"B-X O B-X I-X", "B-X O B-X I-Y"}, {"I-X I-X I-Y O I-X I-X B-X B-X O I-X O", "I-X I-X O O I-Y I-X B-X B-X O I-X O"}, {"I-X I-X B-X I-X I-Y O I-X", "I-Y I-X O I-X I-Y O I-X"}, {"I-X I-X O B-X B-X I-X I-X I-Y I-X", "I-X B-X O B-X B-X I-X I-X I-Y I-X"}, {"I-X I-Y", "I-X I-X"}, {"O", "I-X"}, {"I-Y O O B-X", "I-Y O O B-X"}},
     103, 96, {65.0485436893204, 69.79166666666666, 67.33668341708542}},
    {"O I-X E-X I-Y E-Y", {{"E-X I-X", "E-X I-X"}, {"E-X E-X I-Y E-X I-Y", "E-X E-X I-Y E-X I-Y"}, {"E-Y E-X I-Y E-Y I-Y E-Y O E-Y E-X E-X", "E-Y O I-Y I-Y I-Y E-Y I-Y E-Y E-X I-Y"}, {"O", "O"}, {"E-X I-X I-Y E-X E-X I-Y E-Y E-Y E-Y E-X E-Y E-Y", "E-X I-X I-X E-X E-X I-Y E-Y E-Y E-Y E-X E-X E-Y"}, {"I-Y I-Y E-Y I-X I-Y O E-Y", "I-Y I-Y E-Y E-X I-Y O E-Y"}, {"E-X O E-X O I-Y E-X I-Y I-X I-Y E-Y E-X", "E-X O E-X O I-Y E-X I-Y I-X I-Y E-Y E-X"}, {"I-Y E-Y I-X O O O", "I-Y E-Y I-X O O O"}, {"E-X", "I-Y"}, {"E-Y I-Y", "I-X I-Y"}, {"I-Y E-X E-X E-Y I-Y I-Y I-Y E-X", "I-Y I-Y E-X E-Y I-X I-Y I-Y I-X"}, {"E-Y I-Y E-X O", "E-Y I-Y O O"}, {"I-X I-X O O E-Y E-X E-Y I-Y E-X", "I-X I-X O O E-Y E-X E-Y I-Y E-X"}, {"I-X I-Y I-X O I-Y", "I-X I-Y I-Y O I-Y"}, {"I-Y I-X E-X E-X I-Y", "I-Y I-X E-X E-X I-Y"}, {"E-Y E-Y I-X E-Y E-Y I-Y E-X E-Y I-Y E-X I-X", "E-Y E-Y I-X E-Y E-Y I-Y E-X E-Y I-X E-X I-X"}, {"O", "O"}, {"E-X I-Y O E-Y E-Y E-X", "I-X I-Y I-X E-Y E-Y E-X"}, {"I-Y", "I-Y"}, {"I-X I-X O", "I-X I-X O"}, {"O", "O"}, {"O I-X", "O I-X"}, {"I-X I-Y I-X O I-X E-Y O E-X I-X I-X", "I-X I-Y I-X O I-X E-Y O E-X I-X I-X"}, {"I-X I-X I-X I-X I-Y I-Y E-X I-X E-Y", "I-X I-X I-X I-X I-Y I-Y E-X I-X E-X"}, {"I-Y E-Y E-X E-X I-Y E-Y I-Y O O I-Y I-Y I-Y", "I-Y E-Y E-X O I-Y I-Y I-Y O O I-Y I-Y I-Y"}, {"I-Y I-X E-Y E-Y I-X I-X I-X", "I-Y I-X E-Y E-Y I-X I-X I-X"}, {"O O I-Y", "O O I-Y"}, {"I-X O O I-X I-X", "I-X O O I-X I-X"}, {"E-Y I-X I-Y O E-Y E-X I-X I-X I-X", "E-Y I-X E-X O E-Y E-X I-X I-X E-Y"}, {"E-X O", "E-X O"}},
     117, 108, {76.92307692307693, 83.33333333333334, 80.0}},
    {"O B-X I-X E-X S-X B-Y I-Y E-Y S-Y", {{"B-X E-X I-Y B-Y E-Y B-X E-X", "B-X E-X I-Y B-Y E-Y B-X E-X"}, {"E-Y E-Y E-Y S-X I-X I-Y", "E-Y E-Y E-Y S-X I-X S-X"}, {"B-X I-X O O S-X E-X I-X B-Y S-X I-X B-X S-X", "B-X B-Y O S-X O E-X I-X B-Y B-Y I-X B-X S-X"}, {"S-X E-X I-Y S-X B-Y I-X E-Y B-Y B-X S-X", "O E-X I-Y S-X B-Y I-X E-Y B-Y B-X S-X"}, {"I-X", "I-X"}, {"S-Y I-X S-X S-X B-X B-Y", "S-Y I-X S-X S-X S-X I-X"}, {"B-Y S-X B-Y E-Y E-Y S-X B-X", "B-Y S-X B-Y E-Y O S-X I-Y"}, {"E-X S-X S-Y I-Y O S-Y O", "S-Y S-X S-Y I-Y O E-Y O"}, {"E-X S-Y B-X S-X B-Y E-X S-Y E-Y E-X B-Y E-Y E-X", "E-X S-Y B-X S-X I-X E-X S-Y E-Y E-X S-X E-Y B-X"}, {"O O B-Y I-Y O", "O O B-Y I-Y O"}, {"S-Y E-Y B-Y I-X S-Y B-Y S-X B-Y S-X I-X S-Y S-Y", "S-Y E-Y B-Y I-X E-Y B-Y S-X B-Y S-X I-X S-Y S-Y"}, {"E-Y S-Y B-X I-Y S-X B-X O I-Y S-X", "E-Y B-X S-X E-Y S-X B-X S-Y S-X S-X"}, {"I-Y E-Y S-Y S-X E-Y B-Y", "E-X E-Y S-Y S-X E-Y B-Y"}, {"S-Y E-Y E-X B-X", "S-Y E-Y E-X B-X"}, {"S-X B-Y O I-Y I-Y S-X I-Y S-X B-X E-X S-Y", "I-Y B-Y O I-Y I-Y S-X O S-X B-X E-X S-Y"}, {"O S-Y I-Y E-Y I-X E-X I-Y E-Y S-Y S-Y", "O S-Y E-Y E-Y I-X E-X I-Y E-Y S-Y S-Y"}, {"O E-Y B-X I-Y", "O E-Y B-X I-Y"}, {"B-Y I-Y S-Y E-Y I-Y S-X O E-X E-X S-Y S-Y E-Y", "B-Y I-Y S-Y E-Y I-Y S-X O E-X O E-Y S-Y O"}, {"S-Y E-X B-Y B-X O O B-X I-X I-X", "S-Y E-X B-Y B-X B-Y O B-X I-X I-X"}, {"E-Y I-X E-X O O", "E-Y I-X E-X I-Y S-X"}, {"S-X I-Y I-X E-Y B-Y S-X", "S-X I-Y S-X E-Y B-Y S-X"}, {"I-Y O B-Y S-Y E-Y O E-X S-X", "I-Y I-X B-Y S-Y E-Y O E-X S-X"}, {"B-Y", "B-Y"}, {"B-X E-Y", "B-X E-Y"}, {"S-X E-X I-Y O I-X E-Y I-X", "S-X E-X I-Y O I-X B-Y E-X"}, {"I-Y E-X E-Y B-X S-Y O E-Y", "I-Y E-X E-X B-X S-Y I-Y E-Y"}, {"E-X", "S-Y"}, {"S-X I-X E-Y S-X", "S-X I-X O S-X"}, {"I-Y I-X B-X O E-X S-Y E-Y B-Y B-Y I-X B-X", "I-Y I-X B-X O E-X I-Y E-Y B-X B-Y I-X B-X"}, {"B-X S-X E-Y", "B-X S-X E-Y"}},
     167, 168, {83.8323353293413, 83.33333333333334, 83.5820895522388}},
    {"O B I", {{"I B I", "O B I"}, {"B I B O I B O B B O I I", "B I B O B B B B I O I I"}, {"B B", "B B"}, {"I B O O O O B B I I I O", "I O B O O O B B I B I O"}, {"O B I B I O B I O O B", "O B I B I O B I O O B"}, {"I I I B", "I I I O"}, {"I O B I", "I O O I"}, {"O I I O B B B O", "O I I O B B B O"}, {"I B I B O I I O O B I", "I B I B B I I B O B I"}, {"O I O O O I O O", "I I O O O B O O"}, {"I", "I"}, {"I", "I"}, {"B I B O I B", "B I I O I B"}, {"I I I O", "I I I O"}, {"O B B B B", "O B B O B"}, {"O B O", "O B O"}, {"O B B B I O O O O", "O B O I I O O I O"}, {"B B O B O O", "B B O B B O"}, {"I B I B", "I B I B"}, {"O O B", "O O I"}, {"B O B I B I I O I I B O", "B O B I B I I I I I B B"}, {"O B B B O I", "B B B B O I"}, {"I I I O B O B", "I I I B B O I"}, {"O B B B B O I I I O O O", "O I B B B O I I I O O O"}, {"B B I B", "B B I B"}, {"O I B B", "O O B O"}, {"I B O I", "I B O I"}, {"I B B B O O B", "B B B B O O O"}, {"I I O I B I O I B I", "I I O I B O O I B I"}, {"O B I I", "O B I I"}},
     93, 91, {79.56989247311827, 81.31868131868131, 80.43478260869566}},
    {"O B-X I-X B-Y I-Y PAD", {{"B-X B-Y O B-X O O", "B-X B-Y O B-X O O"}, {"O PAD PAD B-X I-X B-Y", "O PAD PAD I-X I-X PAD"}, {"B-X", "B-X"}, {"PAD PAD", "PAD PAD"}, {"O I-Y I-Y B-Y I-X B-X B-Y O B-X PAD I-Y B-X", "O I-X I-Y B-Y I-X B-X B-Y O B-X PAD PAD B-X"}, {"I-Y B-X O O I-X I-Y O I-Y B-X I-X", "I-Y I-Y O O I-X I-Y O I-Y B-X PAD"}, {"B-X B-X O", "B-X B-X O"}, {"I-Y PAD B-X", "I-Y PAD PAD"}, {"B-Y I-Y B-X B-X B-X B-Y PAD I-X B-Y I-X O B-Y", "B-Y I-Y B-X B-X B-X I-X PAD I-X I-X I-X O B-Y"}, {"B-Y PAD I-Y PAD B-Y O I-Y I-Y", "PAD B-Y I-Y PAD B-Y O I-Y I-Y"}, {"B-X B-X I-Y I-X I-Y PAD", "I-X I-Y I-Y I-X I-Y O"}, {"B-Y I-Y B-Y O O I-X I-Y B-Y B-Y B-X PAD I-Y", "B-Y I-Y PAD O I-Y I-X I-Y B-Y B-Y I-X PAD I-Y"}, {"O O", "O O"}, {"I-Y", "I-Y"}, {"I-Y I-Y O B-Y I-Y O B-Y I-Y B-X", "I-Y I-Y B-Y B-Y I-Y O B-Y I-Y B-X"}, {"I-X I-Y", "I-X I-Y"}, {"I-X PAD O B-X O", "I-X PAD O B-X O"}, {"O PAD PAD I-Y B-X", "O PAD PAD I-Y B-X"}, {"I-Y B-Y", "I-X B-Y"}, {"PAD I-X O", "PAD I-X O"}, {"O O B-X O B-Y B-Y B-Y I-X", "O O B-X O B-Y B-Y B-Y I-X"}, {"B-X B-Y", "B-X B-Y"}, {"I-Y B-Y PAD I-Y", "I-Y B-Y PAD I-Y"}, {"I-Y B-X I-X PAD I-X I-Y B-X B-Y B-Y I-X I-X I-X", "I-Y B-X I-X I-Y I-X B-Y B-X B-Y B-Y B-Y I-X I-X"}, {"PAD", "PAD"}, {"PAD O I-Y B-X B-X I-X O", "PAD O I-Y B-X B-X I-X O"}, {"PAD B-X B-Y O PAD PAD PAD O B-Y B-X", "PAD B-X B-Y O PAD B-Y PAD I-Y B-Y B-X"}, {"I-Y PAD PAD I-X B-Y O", "I-Y I-X PAD PAD B-Y O"}, {"O I-X B-X O", "O PAD B-X O"}, {"B-X B-X B-X", "B-X B-X B-X"}},
     116, 115, {75.86206896551724, 76.52173913043478, 76.19047619047619}},
    {"O B-X I-X X", {{"X I-X B-X I-X I-X X B-X X X", "X I-X B-X I-X I-X X X X X"}, {"I-X O B-X I-X X B-X X I-X X X", "I-X O B-X I-X O O X I-X X X"}, {"X X I-X I-X", "X X I-X I-X"}, {"B-X I-X I-X", "B-X I-X I-X"}, {"O X I-X X I-X X", "O X I-X X I-X X"}, {"I-X O I-X O", "I-X O I-X O"}, {"X I-X O B-X I-X X I-X", "X I-X I-X B-X I-X X O"}, {"B-X B-X B-X B-X B-X O I-X", "B-X B-X B-X B-X O B-X I-X"}, {"O B-X O B-X I-X B-X X B-X O O X I-X", "O B-X O B-X I-X I-X X X O O X I-X"}, {"X O I-X X", "X I-X I-X X"}, {"O X I-X X O O I-X X", "O X I-X X O B-X I-X X"}, {"X X B-X I-X X I-X O I-X", "X X O I-X X I-X O X"}, {"I-X X I-X I-X X O X", "I-X X I-X I-X X O X"}, {"O O X I-X O O I-X O O", "O O X I-X O O B-X O O"}, {"X I-X I-X B-X", "X I-X I-X B-X"}, {"B-X X X B-X B-X I-X X O O X", "B-X O X B-X B-X I-X X O X X"}, {"B-X O I-X I-X X X I-X B-X", "B-X O I-X I-X B-X X I-X B-X"}, {"O B-X I-X B-X I-X", "O B-X I-X B-X I-X"}, {"O I-X I-X O O", "O I-X I-X B-X O"}, {"O O O", "X I-X I-X"}, {"X", "X"}, {"I-X B-X O X O I-X O O", "B-X B-X B-X X O I-X O O"}, {"B-X I-X O X B-X O B-X", "B-X I-X O O B-X O B-X"}, {"B-X O O B-X I-X I-X", "I-X O O B-X I-X I-X"}, {"B-X I-X I-X", "B-X I-X I-X"}, {"O O I-X B-X X I-X", "O O I-X B-X X X"}, {"X", "X"}, {"X I-X X X O I-X X O O", "X I-X X X I-X O X O O"}, {"O", "O"}, {"I-X B-X B-X B-X O O", "O B-X B-X I-X O B-X"}},
     89, 80, {67.41573033707866, 75.0, 71.00591715976331}},
    {"O B-X I-X B-Y I-Y S SPACE .", {{"S . O O I-X . I-X I-Y O", "S . O O I-X S I-X I-X O"}, {"S . I-Y SPACE I-X . O . SPACE S I-X", ". . I-Y SPACE I-X . I-X . I-Y S B-Y"}, {"B-X B-X O S SPACE I-X S B-Y O I-Y I-Y I-Y", "B-X B-X O . I-Y I-X S B-Y I-Y I-Y I-Y I-Y"}, {"O B-X B-X S S I-X S", "O B-X B-X S S I-X S"}, {"S I-Y B-Y . B-X B-X O I-Y", "S I-Y B-Y . B-X B-X O I-Y"}, {"B-Y SPACE B-X SPACE I-X . B-Y", "B-Y SPACE B-X SPACE I-X S B-Y"}, {". SPACE . . I-Y . O", ". SPACE . . I-Y . O"}, {"I-Y I-Y", "I-Y I-Y"}, {"O B-X SPACE B-Y SPACE I-X SPACE", "O I-Y SPACE B-Y I-Y I-X SPACE"}, {"B-X SPACE", "B-X SPACE"}, {"SPACE B-X S SPACE S . . S O B-X . B-Y", "SPACE B-X S SPACE S . . O O B-X . B-Y"}, {"I-Y O B-Y .", "I-Y O I-X ."}, {"O SPACE . S .", "O B-X . B-Y ."}, {"SPACE B-X B-X B-X B-Y S", "SPACE B-X SPACE B-Y I-Y O"}, {"B-Y I-X O I-Y I-Y S SPACE", "B-Y I-X O I-Y I-Y S SPACE"}, {"B-Y . S I-Y B-X", "B-Y . S B-X B-X"}, {"B-X I-X I-Y B-Y B-Y B-Y SPACE I-X B-X S B-X .", "B-Y I-X I-Y B-X B-Y . O I-X B-X S B-X ."}, {"B-X O . I-Y", "B-X O I-Y I-Y"}, {"I-Y I-Y I-Y SPACE O", "I-Y I-Y I-Y SPACE SPACE"}, {"O . SPACE", "O . SPACE"}, {"B-Y B-X S", "B-Y SPACE S"}, {"I-Y B-Y B-X", "S B-Y B-X"}, {"SPACE SPACE SPACE . . B-X B-X I-Y", "SPACE SPACE SPACE . I-X B-X B-X I-Y"}, {"O B-Y", "O B-Y"}, {"I-X B-X B-Y I-Y I-X B-Y O O SPACE I-Y SPACE", "I-X B-X B-Y SPACE I-X B-Y O O I-X I-Y SPACE"}, {"O . B-Y O B-Y B-X O B-Y SPACE SPACE", "O . B-Y O B-Y S O B-Y SPACE SPACE"}, {"SPACE SPACE O", "SPACE SPACE O"}, {"SPACE S", "I-X S"}, {"I-Y", "I-Y"}, {"I-X I-Y S I-Y SPACE B-X", "I-X I-Y S I-Y I-X I-Y"}},
     128, 125, {73.4375, 75.2, 74.30830039525692}},
    {"O B-X-1 I-X-1 B-X-2 I-X-2", {{"I-X-1 I-X-1 B-X-2 I-X-1 B-X-1 O I-X-2 I-X-2 I-X-1 I-X-2", "I-X-1 I-X-1 B-X-2 I-X-1 B-X-1 O I-X-2 I-X-2 I-X-1 I-X-1"}, {"I-X-2 B-X-2 B-X-2 I-X-2", "O I-X-2 B-X-2 I-X-2"}, {"B-X-2 O B-X-1 O", "B-X-2 O B-X-1 O"}, {"B-X-1 B-X-2 I-X-2 O B-X-1 B-X-2 B-X-1", "B-X-1 B-X-2 B-X-1 O B-X-1 B-X-2 B-X-1"}, {"O I-X-1 I-X-1", "O I-X-1 I-X-1"}, {"O I-X-1 O B-X-1", "O I-X-1 O B-X-1"}, {"I-X-2 I-X-2 B-X-2 I-X-2 O B-X-1 B-X-1 B-X-2 O B-X-2 I-X-2", "I-X-2 I-X-2 B-X-2 I-X-2 O B-X-1 B-X-1 B-X-2 O B-X-2 I-X-2"}, {"B-X-2 O B-X-2 O B-X-1 B-X-1 I-X-2 B-X-1", "B-X-2 B-X-1 O O B-X-1 B-X-1 I-X-2 B-X-1"}, {"B-X-1 O B-X-2 I-X-2 I-X-1 O", "B-X-1 O B-X-2 I-X-2 I-X-1 I-X-2"}, {"I-X-2 I-X-2", "I-X-2 I-X-2"}, {"O B-X-1 B-X-1 I-X-2 I-X-1", "O B-X-1 I-X-2 I-X-2 I-X-1"}, {"B-X-1 I-X-2 O I-X-2 O B-X-1 B-X-1 O B-X-2 O I-X-1 I-X-1", "B-X-1 B-X-1 I-X-2 I-X-2 O B-X-1 I-X-1 O B-X-1 O I-X-1 I-X-1"}, {"I-X-2 B-X-2 I-X-2 B-X-1 B-X-2 I-X-2 I-X-2 I-X-2", "I-X-2 B-X-2 I-X-2 B-X-1 B-X-2 I-X-2 I-X-2 I-X-2"}, {"O", "O"}, {"I-X-1 I-X-2 B-X-2 B-X-1 I-X-2 B-X-1 I-X-2 I-X-1 O I-X-2 I-X-1 B-X-1", "I-X-1 I-X-2 B-X-2 B-X-1 I-X-2 B-X-1 B-X-1 I-X-1 B-X-1 I-X-2 I-X-1 B-X-1"}, {"O B-X-1 I-X-1 B-X-1 O I-X-1", "O B-X-1 I-X-1 B-X-1 O I-X-1"}, {"I-X-1 B-X-2 B-X-1 B-X-2 O B-X-2 O I-X-1 I-X-1 B-X-1", "I-X-2 B-X-2 B-X-1 B-X-2 O B-X-2 O I-X-1 I-X-1 B-X-1"}, {"B-X-2 B-X-1", "B-X-2 B-X-1"}, {"I-X-1", "I-X-1"}, {"O B-X-1 I-X-1 B-X-1", "B-X-1 O I-X-1 B-X-1"}, {"O", "I-X-1"}, {"I-X-1 I-X-2 I-X-1 I-X-2 I-X-2 I-X-1", "B-X-2 I-X-2 I-X-1 I-X-2 I-X-2 B-X-1"}, {"B-X-1 I-X-2 B-X-2", "B-X-1 I-X-2 B-X-2"}, {"I-X-2 B-X-2 O I-X-2 B-X-2", "B-X-1 B-X-2 O I-X-2 B-X-2"}, {"B-X-2", "B-X-2"}, {"B-X-2 B-X-2 O O I-X-2", "B-X-2 B-X-2 O O I-X-2"}, {"B-X-1 O I-X-2 O I-X-2 B-X-2 I-X-2 O I-X-1 I-X-1 I-X-1", "O O I-X-2 O I-X-2 B-X-2 I-X-2 O I-X-1 I-X-1 I-X-1"}, {"O B-X-2", "O B-X-2"}, {"B-X-1 B-X-1 O B-X-2 I-X-2", "I-X-1 B-X-1 O I-X-1 I-X-2"}, {"B-X-1 I-X-1 I-X-1", "B-X-1 I-X-1 I-X-1"}},
     103, 102, {79.6116504854369, 80.3921568627451, 80.0}},
    {"O X-B X-I Y-B Y-I", {{"X-I Y-I X-I X-I X-I X-I Y-B X-B Y-B O", "X-I Y-I X-I X-I X-I X-B O X-B X-I O"}, {"X-I O X-B Y-I X-I O O Y-B X-I Y-I O Y-B", "X-I O X-B X-I X-I X-I O X-I X-B X-B O Y-B"}, {"O Y-B O Y-B X-I Y-B", "O Y-B O Y-B Y-I Y-B"}, {"X-I X-I X-B", "X-I X-I X-B"}, {"Y-B Y-I Y-B Y-I Y-B X-I O X-B X-I Y-I X-I", "Y-B Y-I Y-B Y-I X-I X-I O X-B X-I O X-I"}, {"Y-I O Y-B Y-B Y-B Y-I O O", "Y-I O Y-B Y-I Y-B Y-I O O"}, {"O Y-I X-I O", "X-I O X-I O"}, {"O Y-B Y-I O O X-I Y-I X-B X-I", "O Y-B Y-I O O X-I Y-I X-B X-I"}, {"O X-B X-B O X-B O", "O X-B X-B O X-I O"}, {"Y-I X-B Y-I X-I Y-I", "O X-B Y-I Y-B Y-I"}, {"Y-I Y-B X-I O Y-I", "Y-I Y-B X-I O Y-I"}, {"X-I Y-I Y-I", "X-B X-B Y-I"}, {"Y-B Y-B X-B X-B X-B X-I X-B X-I X-B X-I O", "Y-B Y-B X-B Y-B X-B X-B O X-I X-B X-I O"}, {"O X-I O Y-B X-I O Y-I O Y-B Y-B X-B O", "O X-I O Y-B X-I O Y-I O Y-I X-B X-B O"}, {"Y-B X-I O Y-B O X-I O", "Y-B X-I O Y-B O X-I O"}, {"O", "O"}, {"X-B X-I O O X-B", "X-B X-I O Y-B X-B"}, {"O X-B Y-B Y-I Y-B Y-B X-B Y-I O X-B X-I O", "O Y-I O X-B Y-B X-B X-B Y-I O X-B X-I O"}, {"X-B X-B Y-B Y-I Y-I Y-I X-B Y-I O", "X-B X-B Y-B X-I Y-I Y-I X-B Y-I O"}, {"O", "O"}, {"Y-B X-B O O X-I", "Y-B X-B X-I O X-I"}, {"O X-B Y-I Y-B", "O X-B Y-I X-I"}, {"O Y-B O O X-I Y-B Y-I Y-I Y-B Y-I X-I", "X-B Y-B O O Y-B Y-B O X-B Y-B Y-I X-I"}, {"O O", "O O"}, {"X-I Y-I O Y-B X-B Y-B O X-I", "X-I Y-I O Y-I X-B Y-B O X-I"}, {"X-I O X-I Y-B X-I X-I Y-I X-B O O X-B", "X-I O X-I Y-B Y-B X-I X-I X-B O O X-B"}, {"X-B X-I X-I", "X-B X-I X-I"}, {"Y-B O O X-I Y-B X-I Y-I Y-I X-I X-I Y-I X-I", "Y-B O O O Y-B X-I X-B Y-I X-I X-I Y-I X-I"}, {"X-I Y-I O O", "X-I O O O"}, {"X-B O Y-B O Y-I", "O O Y-B O Y-I"}},
     121, 117, {67.76859504132231, 70.08547008547008, 68.90756302521008}},
    {"O B-X I-X L-X U-X B-Y I-Y L-Y U-Y", {{"B-Y O U-X B-Y O I-X", "B-Y O U-X I-X O U-X"}, {"L-X L-Y U-X L-X I-X I-X U-X B-X O L-Y", "L-X I-Y U-X L-X I-X U-Y U-X B-X L-X U-X"}, {"O U-Y O B-Y B-Y U-Y B-X", "O U-Y O B-Y B-Y U-Y B-X"}, {"B-X", "B-X"}, {"U-X I-X I-X L-Y I-X L-X L-Y I-X I-Y O", "U-X I-X I-X L-Y I-X L-X L-X I-X I-Y U-Y"}, {"O O U-X O U-X B-Y I-Y I-Y L-Y U-Y B-X", "O O L-X O I-Y U-Y I-Y I-Y L-Y U-Y B-X"}, {"B-X B-X B-X O B-Y I-X", "L-Y B-X B-X O B-Y U-Y"}, {"L-X", "L-X"}, {"L-Y I-Y I-Y", "L-Y I-Y I-Y"}, {"O I-X U-X L-Y I-X U-Y L-Y U-Y", "O I-X U-X L-Y I-X U-Y O U-Y"}, {"I-Y I-X B-X L-Y B-X U-X I-Y B-Y I-Y L-X", "I-Y U-X B-X L-Y B-X L-Y I-Y B-Y I-Y B-Y"}, {"U-X I-Y B-Y U-X O U-Y L-Y B-X U-X", "U-X I-Y B-Y U-X O U-Y L-Y B-X U-X"}, {"I-X I-Y U-Y U-X U-X U-Y B-Y I-X B-Y L-Y", "I-X I-Y U-Y O U-X U-Y B-Y I-X B-Y L-Y"}, {"U-Y I-Y L-X", "U-Y I-Y L-X"}, {"I-X L-X U-X U-Y I-X I-Y B-Y U-X", "I-X L-X U-X U-X I-X I-X L-X U-X"}, {"O I-Y O L-X L-X I-Y", "O I-Y O L-X L-X I-Y"}, {"U-Y U-X B-Y B-Y I-X U-Y", "U-Y U-X I-X B-Y I-X U-Y"}, {"U-Y B-X U-Y I-X", "U-Y B-X U-Y U-X"}, {"I-Y U-X L-Y I-Y U-X L-X B-Y B-X L-X", "I-Y U-Y L-Y I-Y U-X L-X I-Y B-X L-X"}, {"I-Y O B-X B-X", "I-Y O B-X B-X"}, {"U-X B-X L-X L-X B-X U-X I-Y L-Y", "U-Y B-X L-X O B-X U-X I-Y L-Y"}, {"I-Y U-Y", "I-Y B-Y"}, {"I-X L-Y I-Y O B-Y U-Y L-Y L-Y U-Y I-X L-X I-Y", "I-Y L-Y I-Y I-Y B-Y U-Y O O U-Y I-Y L-X I-Y"}, {"I-X L-X L-X U-X", "I-X L-X L-X U-X"}, {"U-Y I-X I-X O I-Y B-X B-X U-X", "U-Y I-X I-Y O I-Y B-X B-X U-X"}, {"L-Y U-X U-X B-X", "L-Y U-X U-X B-X"}, {"U-X U-Y B-X B-Y", "U-X U-Y B-X B-Y"}, {"O U-X I-X L-Y B-X U-Y I-Y O L-Y B-X", "O U-X L-Y L-Y B-X U-Y U-X L-X L-Y B-X"}, {"U-X U-Y L-Y I-Y B-X", "U-Y U-Y L-Y I-Y B-X"}, {"O", "O"}},
     52, 56, {80.76923076923077, 75.0, 77.77777777777779}},
    {"O B-X L-X U-X", {{"O O B-X U-X U-X", "L-X O B-X U-X U-X"}, {"O L-X B-X", "O L-X B-X"}, {"L-X L-X O B-X L-X L-X B-X O O U-X B-X O", "O L-X O B-X L-X L-X B-X O O U-X B-X O"}, {"O O O L-X", "O O O L-X"}, {"U-X L-X B-X U-X", "U-X L-X B-X U-X"}, {"B-X B-X L-X B-X O", "B-X B-X L-X B-X O"}, {"O B-X", "L-X B-X"}, {"B-X", "B-X"}, {"U-X B-X L-X L-X L-X U-X O U-X U-X B-X", "U-X B-X L-X L-X L-X U-X O L-X U-X B-X"}, {"U-X O L-X U-X", "U-X O L-X U-X"}, {"L-X O B-X B-X O O L-X B-X O U-X O B-X", "L-X O B-X O O O L-X B-X O U-X O B-X"}, {"O U-X L-X O O B-X", "O U-X L-X O O B-X"}, {"L-X L-X U-X U-X L-X O U-X B-X O B-X", "O L-X U-X U-X L-X O U-X B-X O B-X"}, {"B-X O O L-X O", "L-X L-X O O O"}, {"L-X L-X B-X", "U-X L-X B-X"}, {"B-X L-X O B-X O B-X L-X L-X O L-X", "B-X L-X O B-X O B-X L-X L-X O L-X"}, {"L-X B-X O B-X L-X U-X O L-X", "L-X B-X O L-X U-X U-X O L-X"}, {"B-X", "B-X"}, {"L-X L-X L-X L-X O L-X O", "L-X L-X L-X L-X O L-X O"}, {"L-X B-X O B-X O L-X L-X", "L-X B-X O B-X B-X B-X L-X"}, {"O O L-X B-X O", "O O L-X B-X O"}, {"O O", "O O"}, {"L-X U-X U-X B-X", "L-X U-X U-X U-X"}, {"B-X B-X B-X L-X U-X L-X O O B-X O B-X", "B-X B-X B-X L-X U-X O O O O O B-X"}, {"U-X O O O U-X L-X O B-X U-X L-X", "U-X O O O U-X B-X B-X B-X U-X L-X"}, {"L-X U-X B-X B-X O U-X B-X", "L-X U-X B-X B-X O U-X U-X"}, {"L-X U-X U-X U-X L-X B-X U-X", "L-X U-X U-X U-X L-X U-X U-X"}, {"U-X O L-X", "U-X O L-X"}, {"U-X U-X B-X O U-X O O", "U-X U-X B-X O U-X O O"}, {"U-X L-X L-X B-X L-X U-X O L-X B-X L-X U-X", "U-X L-X L-X B-X L-X U-X L-X L-X U-X U-X O"}},
     45, 49, {91.11111111111111, 83.6734693877551, 87.2340425531915}},
  };
}

}  // namespace longspan::testing
