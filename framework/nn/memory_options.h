// Options of the configuration section `memory`: recomputation in the backward pass, and processing
// in chunks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace longspan {

class OptionTable;

// Activations that the backward pass recomputes instead of storing (Korthikanti et al. 2022).
enum class RecomputeGranularity : std::uint8_t {
  none,
  selective,  // each layer's attention sublayer
  full        // groups of layers; only the input of a group is stored
};
const char* name_of(RecomputeGranularity granularity);

// Recomputation policy of a stack.
struct Recomputation {
  RecomputeGranularity granularity = RecomputeGranularity::none;
  std::int64_t num_layers = 1;  // layers per group

  static Recomputation selective() { return {RecomputeGranularity::selective}; }
  static Recomputation every(std::int64_t layers) { return {RecomputeGranularity::full, layers}; }
};

struct MemoryOptions {
  RecomputeGranularity recompute_granularity = RecomputeGranularity::none;
  std::int64_t recompute_num_layers = 1;
  std::int64_t feed_forward_chunks = 1;  // memory.num_feed_forward_chunks
  std::int64_t loss_chunks = 1;          // memory.num_loss_chunks
  // memory.bptt_chunk_length: positions of a chunk in the forward and backward pass; none: the
  // whole sequence at once.
  std::optional<std::int64_t> bptt_chunk_length = {};
  std::int64_t reconstruction_check_every =
      0;                               // memory.reconstruction_check_interval: steps; 0: never
  double reconstruction_bound = 1e-3;  // memory.reconstruction_tolerance
  // Without a key, for comparisons: a reversible stack stores its streams.
  bool stores_streams = false;

  Recomputation recomputation() const {
    const bool has_groups = recompute_granularity == RecomputeGranularity::full;
    return {recompute_granularity, has_groups ? recompute_num_layers : 1};
  }
};

void declare(OptionTable& table, MemoryOptions& options);

}  // namespace longspan
