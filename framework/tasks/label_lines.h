// Predicts labels of lines with a model trained on labeled data.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "framework/modeling/model.h"

namespace longspan {

// A document or an image with the positions to label; without positions, one label for the whole
// line.
struct LabeledLine {
  std::vector<std::int64_t> tokens = {};
  std::vector<std::size_t> places = {};
};

// Collective; equal on every rank. All ranks must pass the same lines. Returns the predicted ids of
// each line, one per position; none for an empty line. The model reads the tokens as `field`. Lines
// are batched by length, with about `batch_tokens` tokens, and sharded over the data ranks.
// `after_batch` runs after each of this rank's batches; an exception from it ends the prediction.
// Throws DataError, prefixed with place(i), for a line longer than the model supports.
std::vector<std::vector<std::int64_t>> predict_labels(
    const Model& model,
    std::span<const LabeledLine> lines,
    const std::string& field,
    bool each_token,
    std::int64_t batch_tokens,
    const std::function<std::string(std::size_t)>& place,
    const std::function<void()>& after_batch = {});

}  // namespace longspan
