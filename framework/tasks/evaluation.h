// How well a model predicts a text: with its memory, or as a model without memory has to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/data/corpus/corpus.h"
#include "framework/modeling/model.h"
#include "framework/tasks/position_losses.h"

namespace longspan {

struct EvaluationOptions {
  std::int64_t streams = 1;  // the text is cut into so many; a multiple of the data ranks
  std::int64_t segment = 1;  // tokens of a stream read in one pass
  // Rows remembered of each layer's input; none: as many as in training. It may be longer.
  std::optional<std::int64_t> memory = {};
  std::int64_t tokens_per_stream = 0;  // predictions of each stream that are made; 0: all
  std::int64_t stride = 1;             // of windows that are computed anew
  // The text is documents, or pieces of so many tokens, that neither see nor predict each other.
  // Not of windows that are computed anew.
  std::optional<std::int64_t> reset_attention_mask = {};
  // Parts of a segment, or of a shorter text, whose losses are told apart: at most as many as it
  // has tokens; 0: none. Not of windows that are computed anew.
  std::int64_t position_parts = 0;
  ProgressCallback listener = {};  // hears after each pass how much of the text is measured
};

struct EvaluationResult {
  double nats = 0;          // the sum of the losses, and of what unknown characters take besides
  std::int64_t tokens = 0;  // that were predicted
  std::int64_t bytes = 0;   // of text of those tokens; 0 where their text is not known
  // Of those tokens the characters that the vocabulary lacks; none where it has no `<unknown>`.
  // What the model says is only that they are unknown: which they are takes
  // Tokenizer::unknown_nats() more for each.
  std::optional<std::int64_t> unknown = {};
  double seconds = 0;  // in which this rank did it
  // What the body watched: a sum is the mean over the positions that were read, times `tokens`.
  std::vector<AuxiliaryMetric> watched = {};
  std::vector<PositionLoss> by_position = {};

  // Of another text by the same model.
  void add(const EvaluationResult& other);

  double loss() const;  // nats a token
  double perplexity() const;
  std::optional<double> bits_per_byte() const;  // none where the text is not known
};

// "; steps 2.31, at most 6"; empty where nothing was watched.
std::string watched_text(const EvaluationResult& result);

// "; 12 of 340 tokens (3.53%) are unknown characters"; empty where there are none.
std::string unknown_text(const EvaluationResult& result);

// Reads each stream segment by segment and carries what the model remembers. Every token of the
// corpus that has one before it is predicted once. Collective; the same result on every rank. The
// losses of a stream are summed in double and the streams in their order, so the sum does not know
// the number of data ranks. Throws ConfigurationError for options that do not fit the model or the
// mesh, DataError for a corpus of less than two tokens.
EvaluationResult evaluate(const Model& model,
                          const Corpus& corpus,
                          const EvaluationOptions& options);

// The same predictions by a model without memory: for each token the window of the `context` tokens
// before it (as many as there are, at the beginning of a stream) is computed anew, and only the
// last position counts (Al-Rfou et al. 2018). With `options.stride` s a window moves on by s tokens
// and its last s positions count, the first of which sees s - 1 tokens less. The streams' windows
// make one pass. `options.memory` is not used; `options.segment` only says how much is read from
// the file at once. Throws ConfigurationError for a stride that is longer than the window.
EvaluationResult evaluate_sliding_window(const Model& model,
                                         const Corpus& corpus,
                                         std::int64_t context,
                                         const EvaluationOptions& options);

}  // namespace longspan
