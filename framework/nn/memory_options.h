// What is computed again in the backward pass instead of being kept, and what is worked through in
// pieces: the section `memory` of a configuration.
#pragma once

#include <cstdint>
#include <string>

namespace longspan {

class OptionTable;

// What a stack computes again.
struct Recomputation {
  enum class Kind : std::uint8_t {
    none,
    attention,  // each layer's attention sublayer
    layers      // `together` layers at a time: of them only the first one's input is kept
  };
  Kind kind = Kind::none;
  std::int64_t num_layers = 1;

  static Recomputation attention() { return {Kind::attention, 1}; }
  static Recomputation every(std::int64_t layers) { return {Kind::layers, layers}; }
};

// What is computed again in place of being stored (Korthikanti et al. 2022).
enum class RecomputeGranularity : std::uint8_t {
  none,
  selective,  // each attention sublayer
  full        // groups of `recompute_num_layers` layers
};
const char* name_of(RecomputeGranularity granularity);

struct MemoryOptions {
  RecomputeGranularity recompute_granularity = RecomputeGranularity::none;
  std::int64_t recompute_num_layers = 1;
  std::int64_t feed_forward_chunks = 1;  // memory.num_feed_forward_chunks
  std::int64_t loss_chunks = 1;          // memory.num_loss_chunks
  std::int64_t reconstruction_check_every =
      0;                               // memory.reconstruction_check_interval: steps; 0: never
  double reconstruction_bound = 1e-3;  // memory.reconstruction_tolerance
  // No key: a reversible stack keeps its streams, as any other function does, to compare with.
  bool keep_streams = false;

  // What the two keys of recomputation say.
  Recomputation recomputation() const;
};

void declare(OptionTable& table, MemoryOptions& options);

}  // namespace longspan
