// Batches of sequence-level training: outputs that the current model samples for the pairs of a
// batch, scored by a metric.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/data/batch.h"
#include "framework/data/data_options.h"
#include "framework/data/tokenization/special_tokens.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/decoding/beam_search.h"
#include "framework/modeling/model.h"

namespace longspan {

struct CandidateContext {
  SequenceLevelOptions options;
  Tokenizer tokenizer;
  SpecialTokenNames special_tokens = {};
  BleuTokens bleu_tokenizer = BleuTokens::thirteen_a;
  std::int64_t length_multiple = 1;  // to which the columns of a batch are padded
  std::uint64_t seed = 1;            // of the run
};

// Candidates of one pair.
struct PairCandidates {
  std::vector<Hypothesis> samples = {};
  std::vector<double> rewards = {};
  double greedy_reward = 0;  // only with SequenceLevelMethod::self_critical
};

// Samples candidates with the current weights in evaluation mode, and arranges them as a batch with
// the fields of sequence_level_losses. The rows of a pair are adjacent: its candidates, then its
// reference if that has a loss. Rows without a candidate are empty. Minimum risk omits repeated
// candidates; include_reference replaces the last sample.
//
// Token i of candidate s of a pair uses the random number of (seed, epoch, batch, global row, s,
// i), so candidates are equal on every layout if the logits are. The first rank of those that share
// the rows scores them. Samples are drawn from the ids that outputs may have (target_vocabulary).
//
// Counts: "tokens", of all rows; "candidate_tokens" and "candidates", of those that count;
// "reference_tokens"; "rows", "source_tokens" and "bytes", of the pairs.
//
// All members are collective over the model's mesh.
class CandidateSource : public BatchSource {
 public:
  // `model` must outlive it.
  CandidateSource(std::unique_ptr<BatchSource> pairs,
                  const Model& model,
                  const CandidateContext& context);

  Batch next() override;
  Tensor cursors() const override { return pairs_->cursors(); }
  CursorRows cursor_rows() const override { return pairs_->cursor_rows(); }
  void restore(const Tensor& cursors) override { pairs_->restore(cursors); }
  std::string restore_warning() const override { return pairs_->restore_warning(); }
  // Returns of the last batch: the mean reward of the samples, the mean baseline of REINFORCE, the
  // mean number of distinct samples of a pair, their mean length in tokens, and their cross-entropy
  // in nats per token, which estimates the entropy of the model.
  std::vector<std::pair<std::string, double>> metric_values() const override;

 private:
  struct Sums {
    double rewards = 0;
    double baselines = 0;
    double samples = 0;
    double distinct = 0;
    double pairs = 0;
    double tokens = 0;
    double nats = 0;
  };
  std::vector<PairCandidates> candidates_of(const Batch& pairs) const;
  void score(const Batch& pairs, std::vector<PairCandidates>& found, bool with_greedy) const;
  Batch arranged(const Batch& pairs, std::vector<PairCandidates>& found);

  std::unique_ptr<BatchSource> pairs_;
  const Model* model_;
  CandidateContext context_;
  SpecialTokenIds special_;
  Sums sums_;
};

// Returns the shape of such a batch for a batch of pairs.
Batch meta_candidates(const Batch& pairs, const DataOptions& data);

}  // namespace longspan
