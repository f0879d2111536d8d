// What a model that was trained on labelled data chooses for lines.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "framework/modeling/model.h"

namespace longspan {

// A text or an image, and where it wants labels: at some of its tokens, or with none named, one for
// all of it.
struct LabelledLine {
  std::vector<std::int64_t> tokens = {};
  std::vector<std::size_t> places = {};
};

// Of each line the ids that the model chooses, one for each place; nothing for a line without
// tokens. The model reads them as `field`. Lines are read in batches of like length and about
// `batch_tokens` tokens, which the data ranks share. Collective; the same on every rank, which are
// all given the same lines. `after_batch` is called after each of this rank's batches; what it
// throws ends the reading. Throws DataError, which begins with place(i), for a line that is longer
// than the model reads.
std::vector<std::vector<std::int64_t>> predict_labels(
    const Model& model,
    std::span<const LabelledLine> lines,
    const std::string& field,
    bool each_token,
    std::int64_t batch_tokens,
    const std::function<std::string(std::size_t)>& place,
    const std::function<void()>& after_batch = {});

}  // namespace longspan
