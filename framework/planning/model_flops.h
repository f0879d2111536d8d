// The floating-point operations of a training step as the mathematics needs them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "framework/config/run_config.h"

namespace longspan {

// Of a pass over the global batch. It is walked on a dry device by one process that keeps
// everything, so that nothing counts that a layout or a memory mode makes again; what the walk
// makes and the mathematics does not need is taken off. One and two rows are walked: the work grows
// evenly with them. On a dry device nobody says how long rows are: padding counts as tokens do.
class ModelFlops {
 public:
  ModelFlops(const RunConfig& settings, const DataSizes& ids);

  struct Count {
    double forward = 0;
    double backward = 0;
    double total() const { return forward + backward; }
  };
  // Of rows like these `ranks` times, which look at so many positions of earlier batches, in that
  // step of training; of the fields only shapes are read. Walked when such shapes are first asked
  // for, or parameters have ended since. Nothing where a process has not the addresses for it.
  // Throws ConfigurationError for what the model cannot have.
  std::optional<Count> of(const Fields& fields,
                          std::int64_t ranks,
                          std::int64_t remembered,
                          std::int64_t step = 0);
  // Of a step on such a mesh with a full memory, before there are data.
  std::optional<Count> of_full_step(const MeshShape& mesh);

 private:
  struct ByRows {
    Count one;
    Count two;
  };
  const Model& model();
  // Parameters that the step reads.
  std::int64_t read_in(std::int64_t step);
  ModelInput reading(const Fields& fields, std::int64_t rows, std::int64_t remembered);
  Count walk(const Fields& fields, std::int64_t rows, std::int64_t remembered, std::int64_t step);
  std::optional<ByRows> walk_rows(const Fields& fields, std::int64_t remembered, std::int64_t step);

  RunConfig settings_;
  DataSizes ids_;
  std::unique_ptr<Model> model_;
  bool lacks_addresses_ = false;  // for the model
  // By the parameters that are read, what is remembered and the shapes of a row.
  std::map<std::vector<std::int64_t>, std::optional<ByRows>> known_;
};

}  // namespace longspan
