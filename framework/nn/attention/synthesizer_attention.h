// Attention with scores computed from a single token or from positions, instead of query-key
// products (Synthesizer, Tay et al. 2020).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/autograd/external_scores.h"
#include "framework/nn/attention/attention_kind.h"
#include "framework/nn/layers.h"
#include "framework/options/options.h"

namespace longspan {

struct SynthesizerOptions {
  // Score types, summed with learned softmax weights if there are several: dense, random,
  // factorized_dense, factorized_random, dot_product.
  std::vector<std::string> scores = {"random"};
  std::optional<std::int64_t> hidden = {};   // of dense; none: dim of a head
  std::int64_t rank = 8;                     // of factorized_random
  std::optional<std::int64_t> longest = {};  // none: that of the training data
};

// Declares the keys model.attention.synthesizer.*.
void declare(OptionTable& table, SynthesizerOptions& options);

// Score of query i and key j, computed by tiled attention:
//   dense               W2_j relu(W1 x_i + b1) + b2_j
//   random              R_ij
//   factorized_dense    (A x_i)_{j mod a} (B x_i)_{j / a}, with A and B of about equal row count
//   factorized_random   R1_i R2_j, of rank `rank`
//   dot_product         q_i k_j / sqrt(dim)
// dense, factorized_random and dot_product are inner products of features of the query and of
// position j. random and factorized_dense are external scores, read by position.
class SynthesizerAttention : public AttentionOp {
 public:
  struct Options {
    SynthesizerOptions synthesizer;
    std::int64_t longest = 0;
    std::int64_t heads = 0;  // total heads of the model
    std::int64_t dim = 0;    // per head
    std::int64_t width = 0;
    double dropout = 0;  // on the probabilities
  };
  SynthesizerAttention(const Scope& scope, const Options& options);
  bool projects_query_and_key() const override;
  // Throws ConfigurationError for a memory and for a sequence that is too long.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  // Parameters of one score type, for this rank's heads.
  struct Member {
    std::string name;
    std::vector<Linear> maps = {};
    std::vector<Weight> tables = {};  // [longest, heads, features]
  };
  struct Features {
    Variable query = {};  // [batch, time, heads, features]; undefined if no score is a product
    Variable key = {};
    ExternalScoreVariables given = {};
  };
  Member member(const Scope& scope, const std::string& name) const;
  Features features(const Member& member,
                    const ProjectedQKV& input,
                    const ForwardContext& pass) const;
  Features weighed(Features own, std::size_t member, const Variable& shares) const;
  double factor_of(const Member& member) const;  // scale of its products
  Features all_features(const ProjectedQKV& input, const ForwardContext& pass) const;
  Variable rows_at(const Weight& table, const Ranges& positions) const;
  Variable at_positions(const Weight& table,
                        const Ranges& positions,
                        const ProjectedQKV& input) const;

  Options options_;
  std::vector<Member> members_;
  Weight mixture_;  // null with a single score type
};

AttentionKind synthesizer_kind();

}  // namespace longspan
