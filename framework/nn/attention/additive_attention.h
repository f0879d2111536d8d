// Additive attention as a mechanism (Bahdanau et al. 2015), and location-aware attention (Chorowski
// et al. 2015).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "framework/nn/attention/mechanism_kind.h"

namespace longspan {

// How a decoder scores the positions of what it looks at.
enum class CrossScores : std::uint8_t {
  dot_product,
  additive,
  location  // additive, and each position hears where the one before it has looked
};

struct CrossScoreOptions {
  CrossScores kind = CrossScores::dot_product;
  std::int64_t taps = 5;  // of location: places around a key whose probabilities are heard
};

// The score of a query and a key is w . tanh(q + k), with a w of each head: the projections of the
// layer are the two matrices of the small network, and the query's bias is its bias. All keys are
// needed at once: context ranks have a part of the heads each.
//
// With taps, the probabilities that the query before gave to the keys around a key are heard too,
// by a vector for each place: a convolution and the matrix that reads it in one. That makes queries
// follow one another, and their probabilities are kept.
class AdditiveAttentionMechanism : public Mechanism {
 public:
  struct Options {
    std::int64_t heads = 0;  // of the model
    std::int64_t dim = 0;    // of a head
    std::int64_t taps = 0;   // 0: no location is heard
    double dropout = 0;      // of the probabilities
    std::optional<Initial> initial = {};
  };
  // Parameters "score" [heads, dim] and, with taps, "location" [heads, taps, dim].
  AdditiveAttentionMechanism(const Scope& scope, const Options& options);
  bool reads_on() const override { return true; }
  // Throws ConfigurationError for rules other than causal or none.
  Variable operator()(const Projected& input,
                      const SegmentContext& context,
                      const Pass& pass) const override;

 private:
  Options options_;
  std::int64_t head_begin_;
  Weight score_;
  Weight location_;
};

MechanismKind additive_kind();

// The mechanism of a layer's cross-attention, by its scores. scale: of scores that are products, as
// SoftmaxForm::scale.
std::unique_ptr<Mechanism> cross_mechanism(const Scope& attention,
                                           const CrossScoreOptions& scores,
                                           const AdditiveAttentionMechanism::Options& options,
                                           double scale = 0);

// What keeps cross-attention from having these scores, as a sentence; empty where nothing does.
std::string cross_scores_problem(const CrossScoreOptions& scores,
                                 std::int64_t heads,
                                 std::int64_t dim,
                                 const MeshShape& mesh);

}  // namespace longspan
