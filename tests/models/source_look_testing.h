// Models with pointer-generator, coverage and guided-attention losses.
#pragma once

#include "tests/models/encoder_decoder_testing.h"

namespace longspan::testing {

// Adds alignment links: one duplicate, one target with two links, others without; none in empty
// rows. Returns the number of linked targets.
inline std::int64_t add_links(Fields& fields) {
  const auto sources = field_of(fields, "source_length").span<std::int64_t>();
  const auto targets = field_of(fields, "length").span<std::int64_t>();
  const Tensor links = full_tensor({std::ssize(sources), 4, 2}, -1);
  std::int64_t linked = 0;
  for (std::size_t row = 0; row < sources.size(); ++row) {
    if (sources[row] == 0 || targets[row] == 0) continue;
    const std::int64_t source = sources[row] - 1, target = targets[row] - 1;
    const std::int64_t here[] = {0, target, source, target, source / 2, target / 2, 0, target};
    std::ranges::copy(here, links.data<std::int64_t>() + 8 * row);
    linked += target / 2 == target ? 1 : 2;
  }
  fields["links"] = links;
  return linked;
}

// Options alone and in combination.
struct LossCase {
  const char* name;
  CrossAttentionLossOptions source;
  std::int64_t heads;
  std::optional<std::int64_t> layer;
  CrossAttentionMapping wiring;
};
inline const std::vector<LossCase>& loss_cases() {
  using enum GuidedAttentionType;
  static const std::vector<LossCase> all = {
      {"copied and covered", {.copies = true, .coverage = 0.7}, 3, 0, CrossAttentionMapping::last},
      {"aligned, of all layers",
       {.coverage = 0.2, .guide = alignments, .guide_weight = 0.1},
       1,
       {},
       CrossAttentionMapping::full},
      {"copied along the diagonal",
       {.copies = true, .guide = diagonal, .guide_weight = 2, .guide_width = 0.3},
       4,
       {},
       CrossAttentionMapping::mix}};
  return all;
}

// The monotonic guide is computed from the attention itself and is constant for the gradient.
inline const LossCase& monotone() {
  static const LossCase kind = {"moving on",
                                {.guide = GuidedAttentionType::monotonic, .guide_weight = 0.5},
                                3,
                                0,
                                CrossAttentionMapping::last};
  return kind;
}

inline EncoderDecoderOptions with_case(EncoderDecoderOptions options, const LossCase& kind) {
  options.source = kind.source;
  options.alignment_heads = std::min(kind.heads, options.common.heads);
  options.alignment_layer = kind.layer;
  options.wiring = kind.wiring;
  return options;
}

}  // namespace longspan::testing
