// Models, memory modes and layouts, in which every model trains as on one process.
//
// By default a pairwise cover of models, modes and layouts. With LONGSPAN_ALL in the environment:
// the full product.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>

#include "tests/models/layouts_testing.h"

namespace longspan::testing {

// Makes the batch of rows `range` in a step.
using MakeBatch = std::function<Batch(const Case& c, int step, const StreamRange& range)>;

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Model>(ResidualKind, const ModelBuildOptions&)> make;
  MakeBatch batch = {};     // none: segments of random tokens
  bool two_streams = true;  // supports reversible residuals
};

struct Mode {
  std::string name;
  ResidualKind residual = ResidualKind::plain;
  MemoryOptions memory = {};
};

struct Layout {
  MeshShape mesh;
  std::vector<int> zeros = {0};
};

// scale: factor of the chunk lengths in time.
inline std::vector<Mode> modes(std::int64_t scale = 1) {
  const MemoryOptions chunks = {.feed_forward_chunks = 3, .loss_chunks = 2};
  return {
      {"plain"},
      {"attention again",
       ResidualKind::plain,
       {.recompute_granularity = RecomputeGranularity::selective}},
      {"layers again", ResidualKind::plain, {.recompute_granularity = RecomputeGranularity::full}},
      {"two layers again, chunked",
       ResidualKind::plain,
       {.recompute_granularity = RecomputeGranularity::full,
        .recompute_num_layers = 2,
        .feed_forward_chunks = 3,
        .loss_chunks = 2}},
      {"chunked", ResidualKind::plain, chunks},
      {"reversible", ResidualKind::reversible},
      {"reversible, chunked", ResidualKind::reversible, chunks},
      {"gated", ResidualKind::gated},
      {"gated, layers again, chunked",
       ResidualKind::gated,
       {.recompute_granularity = RecomputeGranularity::full,
        .feed_forward_chunks = 3,
        .loss_chunks = 2}},
      {"chunks of 2 in time", ResidualKind::plain, {.bptt_chunk_length = 2 * scale}},
      {"layers again, chunks of 3 in time",
       ResidualKind::plain,
       {.recompute_granularity = RecomputeGranularity::full,
        .feed_forward_chunks = 2,
        .bptt_chunk_length = 3 * scale}},
      {"attention again, chunks of 1 in time",
       ResidualKind::plain,
       {.recompute_granularity = RecomputeGranularity::selective,
        .loss_chunks = 2,
        .bptt_chunk_length = scale}},
      {"reversible, chunks of 2 in time",
       ResidualKind::reversible,
       {.feed_forward_chunks = 2, .bptt_chunk_length = 2 * scale}},
      {"gated, layers again, chunks of 3 in time",
       ResidualKind::gated,
       {.recompute_granularity = RecomputeGranularity::full, .bptt_chunk_length = 3 * scale}}};
}

inline std::vector<Layout> layouts() {
  return {{{}},
          {{.data = 2}, {0, 1, 2}},
          {{.tensor = 2}},
          {{.context = 2}},
          {{.context = 4}},
          {{.tensor = 2, .sequence = true}},
          {{.data = 2, .tensor = 2}, {0, 1}},
          {{.context = 2, .tensor = 2}},
          {{.context = 2, .tensor = 2, .sequence = true}, {2}}};
}

inline Case with(const Kind& kind, const Mode& mode, int zero, Case c) {
  c.name = fmt::format("{}, {}, ZeRO {}", kind.name, mode.name, zero);
  c.make = [make = kind.make, residual = mode.residual](const ModelBuildOptions& setting) {
    return make(residual, setting);
  };
  if (kind.batch)
    c.batch = [make = kind.batch, c](int step, const StreamRange& rows) {
      return make(c, step, rows);
    };
  c.memory = mode.memory;
  c.zero = zero;
  return c;
}

// Returns whether a model supports a mode.
inline bool supports(const Kind& kind, const Mode& mode, const Case& common) {
  if (mode.residual == ResidualKind::reversible && !kind.two_streams) return false;
  if (!mode.memory.bptt_chunk_length && mode.memory.feed_forward_chunks == 1) return true;
  const Case c = with(kind, mode, 0, common);
  try {
    c.make(c.setting(ProcessMesh()));
    return true;
  } catch (const ConfigurationError&) {
    return false;
  }
}

// References: one process per residual type, without recomputation or reconstruction. One per kind.
using References = std::map<ResidualKind, Trained>;

inline std::vector<Mode> reference_modes() {
  return {{"plain"},
          {"two streams", ResidualKind::reversible, {.stores_streams = true}},
          {"gated", ResidualKind::gated}};
}

inline std::vector<References> train_references(const std::vector<Kind>& kinds,
                                                const Case& common) {
  std::vector<Case> cases;
  std::vector<std::pair<std::size_t, ResidualKind>> places;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind)
    for (const Mode& mode : reference_modes())
      if (kinds[kind].two_streams || mode.residual != ResidualKind::reversible) {
        cases.push_back(with(kinds[kind], mode, 0, common));
        places.emplace_back(kind, mode.residual);
      }
  std::vector<Trained> trained = train_on_one_process(cases);
  std::vector<References> result(kinds.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    result[places[i].first].emplace(places[i].second, std::move(trained[i]));
  return result;
}

inline void expect_equal(const std::vector<Kind>& kinds,
                         const std::vector<Layout>& layouts,
                         const Case& common) {
  const bool full_product = std::getenv("LONGSPAN_ALL") != nullptr;
  const std::vector<Mode> every = modes(std::max<std::int64_t>(1, common.segment / 8));
  const std::vector<References> references = train_references(kinds, common);
  std::size_t places = 0;  // pairs of layout and ZeRO stage
  for (const Layout& layout : layouts) places += layout.zeros.size();
  const std::size_t cover = full_product ? 1 : std::min({kinds.size(), every.size(), places});
  std::size_t place = 0;
  for (const Layout& layout : layouts)
    for (const int zero : layout.zeros) {
      for_each_layout({layout.mesh}, [&](const ProcessMesh& mesh) {
        for (std::size_t kind = 0; kind < kinds.size(); ++kind)
          for (std::size_t mode = 0; mode < every.size(); ++mode)
            if (mode % cover == (kind + place) % cover &&
                supports(kinds[kind], every[mode], common))
              expect_same_training(with(kinds[kind], every[mode], zero, common),
                                   references[kind].at(every[mode].residual),
                                   mesh);
      });
      ++place;
    }
}

}  // namespace longspan::testing
