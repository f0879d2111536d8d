// The floating-point operations of a training step as the mathematics needs them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "framework/settings/settings.h"

namespace longspan {

// Of a pass over the global batch. It is walked on a dry device by one process that keeps
// everything, so that nothing counts that a layout or a memory mode makes again; what the walk
// makes and the mathematics does not need is taken off. On a dry device nobody says how long rows
// are: padding counts as tokens do.
class NeededFlops {
 public:
  // `vocabulary`: of the tokenizer.
  NeededFlops(const Settings& settings, std::int64_t vocabulary);

  struct Count {
    double forward = 0;
    double backward = 0;
    double total() const { return forward + backward; }
    friend bool operator==(const Count&, const Count&) = default;
  };
  // Of rows like these `ranks` times, that look at so many positions of earlier batches; only
  // shapes are read. Walked when shapes are first asked for. Where a process lacks the addresses to
  // walk all rows, their number follows from one and two rows; nothing where it lacks those too.
  // Throws ConfigurationError for what the model cannot have.
  std::optional<Count> of(const Fields& fields, std::int64_t ranks, std::int64_t remembered);
  // Of a step of the settings with a full memory.
  std::optional<Count> of_full_step();

 private:
  using Shapes = std::vector<std::int64_t>;

  Count walk(const Fields& fields, std::int64_t rows, std::int64_t remembered);
  Reading reading(const Fields& fields, std::int64_t rows, std::int64_t remembered);
  const Model& model();

  Settings settings_;
  std::int64_t vocabulary_;
  std::unique_ptr<Model> model_;
  std::vector<CarriedTensor> carried_;  // as long as a pass leaves it
  std::map<Shapes, std::optional<Count>> known_;
};

}  // namespace longspan
