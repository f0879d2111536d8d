// Multi-head attention: the projections around a mechanism, heads split over tensor ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/autograd/head_groups.h"
#include "framework/nn/attention/mechanism.h"
#include "framework/nn/head_norm.h"
#include "framework/nn/layers.h"
#include "framework/nn/rotary.h"
#include "framework/nn/side.h"

namespace longspan {

// Why the tensor ranks cannot divide the heads, as a sentence; empty where they can.
std::string heads_problem(std::int64_t heads, const MeshShape& mesh);

// The same of key heads, which queries share.
std::string key_heads_problem(std::int64_t key_heads, std::int64_t heads, const MeshShape& mesh);

// Which projections add a bias.
struct ProjectionBiases {
  bool query = true;
  bool key = true;
  bool value = true;
  bool out = true;

  ProjectionBiases(bool all = true) : query(all), key(all), value(all), out(all) {}
};

class MultiHeadAttention {
 public:
  struct Options {
    std::int64_t width = 0;
    std::int64_t heads = 0;
    std::int64_t dim = 0;                         // of a head
    std::optional<std::int64_t> key_heads = {};   // of keys and values; none: heads
    std::optional<std::int64_t> side_width = {};  // of what it looks at, where that is another
    ProjectionBiases bias = true;
    std::optional<NormForm> query_key_norm = {};  // layer or rms, before they are turned
    std::optional<Initial> initial = {};          // Xavier where nothing is said
    std::optional<Initial> initial_out = {};
    std::optional<Rotary> rotary = {};  // queries and keys are turned by their positions
  };
  // Throws ConfigurationError with heads_problem and key_heads_problem, and for fewer key heads
  // where queries are keys.
  MultiHeadAttention(const Scope& scope,
                     const Options& options,
                     std::unique_ptr<Mechanism> mechanism);

  // Whether its kind can read on from kept keys (Pass::kept).
  bool reads_on() const { return mechanism_->reads_on(); }

  // x: [batch, time, width] looks at `memory` [batch, n, width] (may be undefined), then at itself.
  // With pass.taken it asks for those rows alone where its kind lets each query go by itself, and
  // the other rows of the result are zeros. With pass.kept it looks at the positions read before
  // instead, and keeps its own keys and values; every context rank then does the same. Throws
  // ConfigurationError where the mechanism cannot.
  Variable operator()(const Variable& x,
                      const Variable& memory,
                      const SegmentContext& context,
                      const Pass& pass) const;
  // x looks at another sequence, of any length. The context is of that sequence's positions. With
  // pass.kept the side is read in the first pass only, in later ones its rows may be undefined.
  Variable operator()(const Variable& x,
                      const Side& side,
                      const SegmentContext& context,
                      const Pass& pass) const;

  // What the first `heads` heads of the model look at of a side, on average: [batch, positions of x
  // inside the region, all positions of the side], in the accumulator dtype, the same on every
  // tensor rank. There is no dropout in it. With pass.kept the side is the one that was read, and
  // what has room behind it has columns of zeros.
  Variable probabilities(const Variable& x,
                         const Side& side,
                         std::int64_t heads,
                         const Pass& pass) const;

 private:
  // The same from what pass.kept has of this layer. x: [rows, time, width], the positions that come
  // next. Causal, whatever the context says.
  Variable read_on(const Variable& x, const SegmentContext& context, const Pass& pass) const;
  // The same of a mechanism that carries a state.
  Variable carry_on(const Variable& x, const SegmentContext& context, const Pass& pass) const;
  Variable read_side(const Variable& x,
                     const Side& side,
                     const SegmentContext& context,
                     const Pass& pass) const;
  Variable behind(const Variable& memory, const Variable& x) const;
  Variable by_head(Variable&& projected) const;
  Variable query(const Variable& asking, const Pass& pass) const;
  // Queries or keys [batch, time, heads, dim] as scores read them: normed, and turned where
  // positions are rotary. `with_memory`: the first rows are those of pass.memory.
  Variable placed(Variable&& projected,
                  const std::optional<HeadNorm>& norm,
                  const Pass& pass,
                  bool with_memory = false) const;
  // Keys or values as the mechanism reads them.
  Variable for_heads(const Variable& projected) const {
    return mechanism_->reads_shared_keys() ? projected : for_all_heads(projected);
  }
  // One for each head.
  Variable for_all_heads(const Variable& projected) const {
    return repeat_heads(projected, heads_.count / key_heads_.count);
  }
  // The last step of all of them.
  Variable mix(const Projected& projected, const SegmentContext& context, const Pass& pass) const;

  // Both inside the region. `reading`: the pass of all rows of `seen`. `shares`: where context
  // ranks divide them.
  Variable look(const Variable& asking,
                const Variable& seen,
                const Pass& reading,
                const std::optional<SequenceShares>& shares,
                const SegmentContext& context,
                const Pass& pass) const;

  ProcessMesh mesh_;
  Region region_;
  Part heads_;
  Part key_heads_;
  std::int64_t dim_;
  std::optional<Linear> query_;  // none where the mechanism wants no queries
  std::optional<Linear> key_;    // none where it shares the query
  Linear value_;
  // Of global positions, where the mechanism wants them: query, key and value. They start as copies
  // of the others.
  std::vector<Linear> global_;
  Linear out_;
  std::optional<HeadNorm> query_norm_;
  std::optional<HeadNorm> key_norm_;
  std::optional<Rotary> rotary_;
  std::unique_ptr<Mechanism> mechanism_;
};

}  // namespace longspan
