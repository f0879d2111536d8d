// Evaluates a language model on a corpus, with memory or with a sliding window, also by position,
// and its retrieval from a long text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/core/range.h"
#include "framework/core/tensor.h"
#include "framework/data/batch.h"
#include "framework/data/corpus/corpus.h"
#include "framework/distributed/process_mesh.h"
#include "framework/modeling/model.h"
#include "framework/tasks/task.h"

namespace longspan {

// The mean loss of the positions [begin, end) of a segment, in nats.
struct PositionLoss {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  double loss = 0;
};

// Loss sums over all passes of an evaluation, for parts of a segment of nearly equal size, which
// show the benefit of context.
class PositionLosses {
 public:
  // parts: 0 for none; at most the number of predicted positions.
  PositionLosses(std::int64_t parts, std::int64_t segment);

  bool wanted() const { return parts_ > 0; }
  // Adds this rank's losses of each row at `positions`. targets: [rows, time] i64 on the host;
  // ignored ones do not count.
  void add(const std::vector<double>& losses, const Tensor& targets, const Ranges& positions);

  // Collective over mesh.replicas. Returns the means, without parts that no position reached.
  std::vector<PositionLoss> means(const ProcessMesh& mesh) const;

 private:
  std::int64_t segment_;
  std::int64_t parts_;
  std::vector<double> sums_;
  std::vector<double> counts_;
};

struct EvaluationOptions {
  std::int64_t streams = 1;  // number of streams that the corpus is split into; a multiple of the
                             // data ranks
  std::int64_t segment = 1;  // tokens of a stream per forward pass
  // Memory length; none: as in training. It may be longer.
  std::optional<std::int64_t> memory = {};
  std::int64_t tokens_per_stream = 0;  // predictions per stream; 0: all
  std::int64_t stride = 1;             // stride of the sliding window
  // The corpus consists of documents, or pieces of this many tokens, without attention or
  // prediction across their boundaries. Not supported by the sliding window.
  std::optional<std::int64_t> reset_attention_mask = {};
  // Number of parts of a segment (or a shorter corpus) with separate losses, at most its tokens; 0:
  // none. Not supported by the sliding window.
  std::int64_t position_parts = 0;
  ProgressCallback listener = {};  // receives the progress after each pass
};

struct EvaluationResult {
  double nats = 0;          // sum of the losses, including the cost of unknown characters
  std::int64_t tokens = 0;  // number of predicted tokens
  std::int64_t bytes = 0;   // length of their text; 0 if unknown
  // Number of unknown characters among these tokens; none if the vocabulary has no `<unknown>`. The
  // model only predicts that a character is unknown. Identifying it costs Tokenizer::unknown_nats()
  // more.
  std::optional<std::int64_t> unknown = {};
  double seconds = 0;  // elapsed on this rank
  // Auxiliary metrics of the backbone: a sum is the mean over the positions read, times `tokens`.
  std::vector<AuxiliaryMetric> watched = {};
  std::vector<PositionLoss> by_position = {};

  // Adds the result of another corpus for the same model.
  void add(const EvaluationResult& other);

  double loss() const;  // in nats per token
  double perplexity() const;
  std::optional<double> bits_per_byte() const;  // none if the text length is unknown
};

// "; steps 2.31, at most 6"; empty without auxiliary metrics.
std::string watched_text(const EvaluationResult& result);

// "; 12 of 340 tokens (3.53%) are unknown characters"; empty if there are none.
std::string unknown_text(const EvaluationResult& result);

// Collective; the result is equal on every rank. Reads each stream segment by segment with
// recurrent state. Every token with a predecessor is predicted once. Losses are summed in double
// within a stream and then in stream order, so the sum is independent of the number of data ranks.
// Throws ConfigurationError for options that do not fit the model or the mesh, DataError for a
// corpus of less than two tokens.
EvaluationResult evaluate(const Model& model,
                          const Corpus& corpus,
                          const EvaluationOptions& options);

// As evaluate, for a model without memory. The window of up to `context` preceding tokens is
// recomputed for each token, and only the last position counts (Al-Rfou et al. 2018). With
// `options.stride` s the window advances by s tokens and its last s positions count; the first of
// these has s - 1 tokens less context. The windows of all streams share one pass. `options.memory`
// is ignored; `options.segment` only sets the read size. Throws ConfigurationError for a stride
// above the window size.
EvaluationResult evaluate_sliding_window(const Model& model,
                                         const Corpus& corpus,
                                         std::int64_t context,
                                         const EvaluationOptions& options);

// Pads token id rows to one length.
struct PaddedRows {
  Tensor ids;      // [rows, longest], 0 after a row's end; at least one column
  Tensor lengths;  // [rows]
};
PaddedRows padded_rows(std::span<const std::vector<std::int64_t>* const> rows, const Device& host);

// Returns the first term's losses of each row at this rank's positions.
std::vector<double> row_losses(const Losses& losses);

// Throws ConfigurationError if the model does not support `tokens` tokens per pass.
void check_segment(const Model& model, std::int64_t tokens);

// Sums of auxiliary metrics over the batches of an evaluation.

// Collective. Returns the sum over ranks of vectors, which may be shorter on some ranks.
std::vector<double> sum_over(const Communicator& ranks, std::vector<double> numbers);

class AuxiliaryMetricSums {
 public:
  explicit AuxiliaryMetricSums(const ProcessMesh& mesh) : mesh_(mesh) {}

  // Adds one batch, which has the counts of the means. All batches must have the same metrics.
  void add(const std::vector<AuxiliaryMetric>& watched, const Batch& batch);

  // Collective over all ranks. Adds to `measured`, for "act_steps": the metrics "act_steps_mean"
  // and "act_steps_max", the curve "act_steps" where positions are known, and text.
  void give(Measurement& measured) const;

 private:
  struct Sums {
    std::string name = {};
    double sum = 0;
    double count = 0;
    double largest = 0;
    std::vector<double> at = {};  // sum and rows of each position
  };
  ProcessMesh mesh_;
  std::vector<Sums> sums_;
};

// Needle-in-a-haystack evaluation (Kamradt 2023): a sentence with a number is hidden in a long
// text, and the text ends with a question for it.

struct NeedleOptions {
  std::int64_t segment = 0;  // tokens of an example: text, needle, question and answer
  std::int64_t batch = 1;    // examples per pass; a multiple of the data ranks
  std::int64_t depths = 10;  // number of needle depths, from the start of the text to the question
  std::int64_t count = 1;    // examples per depth
  // Receives the progress after each pass, in bytes of the corpus. An exception from it ends the
  // evaluation.
  ProgressCallback listener = {};
};

// Result of one depth.
struct NeedlePosition {
  std::int64_t distance = 0;  // tokens from the needle's number to the answer
  std::int64_t found = 0;     // answers whose tokens all have a probability above 1/2
  double loss = 0;            // nats per token of the answers
};

// The sentence of an example: question + answer + end is hidden, and the question is asked. The
// numbers are random and equal for all models.
struct Needle {
  std::string question;  // "\nThe number of room 4821 is"
  std::string answer;    // " 73920"
  std::string end;       // ".\n"
};
Needle needle_of(std::int64_t example);

// Collective; equal on every rank. Returns results by depth, longest distance first. Example e of n
// uses the stretch of the corpus that starts at fraction e/n. Throws ConfigurationError for options
// that do not fit the model, the mesh or the sentences. Throws DataError for a corpus that is
// shorter than a segment or has ids without text.
std::vector<NeedlePosition> evaluate_needles(const Model& model,
                                             const Corpus& corpus,
                                             const NeedleOptions& options);

}  // namespace longspan
