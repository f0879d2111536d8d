// What is made of attention to a source is the same on every layout and in every memory mode.
#include "tests/models/equality_testing.h"
#include "tests/models/source_look_testing.h"

namespace longspan {
namespace {

using testing::Case;
using testing::Kind;
using testing::LookKind;

// Pairs of unequal lengths, some without a source or a target.
Batch pairs_of_step(const Case& c, int step, const StreamRange& range) {
  const std::vector<Lengths> all = {{5, 7}, {2, 3}, {0, 0}, {4, 1}, {0, 5}, {3, 6}};
  std::vector<Lengths> rows;
  Batch batch;
  for (const char* name : {"tokens", "cells", "linked"}) batch.counts[name] = 0;
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const Lengths lengths = all[static_cast<std::size_t>(row + 2 * step) % all.size()];
    rows.push_back(lengths);
    batch.counts["tokens"] += lengths.target;
    batch.counts["cells"] += lengths.source * lengths.target;
  }
  batch.fields = testing::pair_fields(
      rows, {c.segment, c.segment + 2}, static_cast<std::uint64_t>(step), range.begin);
  batch.counts["linked"] = testing::add_links(batch.fields);
  batch.first_row = range.begin;
  batch.fresh = true;
  batch.place = "in a test";
  return batch;
}

Kind kind_of(const LookKind& kind) {
  return {kind.name,
          [kind](ResidualKind residual, const ModelSetting& setting) {
            EncoderDecoderOptions options;
            options.common = testing::dropped_options(NormPlacement::pre);
            options.common.residual = residual;
            options.common.layers = 3;
            // The gradient of a bias of keys is rounding alone, of which Adam makes steps: small
            // weights keep them below the bound.
            options.common.initial_deviation = 0.05;
            if (residual == ResidualKind::plain && !kind.layer)
              options.common.norm = NormPlacement::post;
            return testing::make_encoder_decoder(testing::with_look(options, kind), setting);
          },
          pairs_of_step};
}

TEST(SourceLookMesh, EveryKindInEveryModeOnEveryLayout) {
  std::vector<Kind> kinds;
  for (const LookKind& kind : testing::look_kinds()) kinds.push_back(kind_of(kind));
  testing::expect_equal(kinds, testing::layouts(), {.steps = 2});
}

}  // namespace
}  // namespace longspan
