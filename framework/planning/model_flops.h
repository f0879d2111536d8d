// Model FLOPs: floating-point operations that a training step requires mathematically.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "framework/config/run_config.h"

namespace longspan {

// Counts a forward and backward pass over the global batch. One process runs it on a dry device
// with all activations stored, so recomputation by layouts or memory modes does not count. Work of
// the dry run that the mathematics does not need is subtracted. Runs of one and two rows suffice,
// since the work is linear in the rows. A dry device has no row lengths, so padding counts as
// tokens.
class ModelFlops {
 public:
  ModelFlops(const RunConfig& settings, const DataSizes& ids);

  struct Count {
    double forward = 0;
    double backward = 0;
    double total() const { return forward + backward; }
  };
  // Returns the count for `ranks` times these rows, with attention to the given number of earlier
  // positions, in that training step. Only the shapes of the fields are read. Counted when such
  // shapes first occur, or when parameters have ended since. nullopt if the process lacks address
  // space. Throws ConfigurationError for what the model does not support.
  std::optional<Count> of(const Fields& fields,
                          std::int64_t ranks,
                          std::int64_t remembered,
                          std::int64_t step = 0);
  // Returns the count of a step on such a mesh with a full memory, before data are open.
  std::optional<Count> of_full_step(const MeshShape& mesh);

 private:
  struct ByRows {
    Count one;
    Count two;
  };
  const Model& model();
  // Returns the number of parameters that the step reads.
  std::int64_t read_in(std::int64_t step);
  ModelInput reading(const Fields& fields, std::int64_t rows, std::int64_t remembered);
  Count walk(const Fields& fields, std::int64_t rows, std::int64_t remembered, std::int64_t step);
  std::optional<ByRows> walk_rows(const Fields& fields, std::int64_t remembered, std::int64_t step);

  RunConfig settings_;
  DataSizes ids_;
  std::unique_ptr<Model> model_;
  bool lacks_addresses_ = false;  // for the model
  // By the parameters read, the memory length and the shapes of a row.
  std::map<std::vector<std::int64_t>, std::optional<ByRows>> known_;
};

}  // namespace longspan
