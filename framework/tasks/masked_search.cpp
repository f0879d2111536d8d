#include <algorithm>
#include <numeric>

#include "framework/autograd/ops.h"
#include "framework/modeling/sequence_parallel.h"
#include "framework/tasks/evaluation.h"
#include "framework/tasks/translate.h"

namespace longspan {
namespace {

// Encodes the sources once and reuses the encoding in all iterations.
class MaskedReader {
 public:
  MaskedReader(const Model& model,
               std::span<const std::vector<std::int64_t>> sources,
               const MaskedSearchOptions& options)
      : model_(model),
        masked_(model.body().end().masked.value()),
        sources_(sources),
        options_(options) {
    std::vector<MaskPredictRow> rows;
    for (std::int64_t i = 0; i < std::ssize(sources); ++i)
      rows.push_back({i, {options.vocabulary.end}});
    Fields fields = fields_of(rows);
    fields["targets"] = fields["tokens"].clone(MemoryTag::workspace);
    std::ranges::fill(fields["targets"].span<std::int64_t>(), ignored_target);
    Predictions answers = model.predict({.fields = std::move(fields)}, ForwardContext{});
    sides_ = std::move(answers.encoder_outputs);
    const auto classes = answers.choices.span<std::int64_t>();
    for (std::size_t i = 0; i < sources.size(); ++i)
      lengths_.push_back(
          length_of_class(std::ssize(sources[i]), classes[i], masked_.length_offset));
  }

  const std::vector<std::int64_t>& lengths() const { return lengths_; }

  ArgmaxTokens operator()(std::span<const MaskPredictRow> rows) const {
    ModelInput reading = {.fields = fields_of(rows)};
    for (const EncoderOutput& side : sides_) reading.encoder_outputs.push_back(chosen(side, rows));
    const Tensor scores = model_.scores(reading, ForwardContext{}).scores.value();
    std::vector<std::int64_t> forbidden = options_.vocabulary.forbidden;
    forbidden.push_back(options_.vocabulary.end);
    return argmax_tokens(scores,
                         reading.time(),
                         model_.readout().part(),
                         model_.parameters().mesh(),
                         options_.vocabulary.size,
                         forbidden);
  }

 private:
  const std::vector<std::int64_t>& source_of(const MaskPredictRow& row) const {
    return sources_[static_cast<std::size_t>(row.of)];
  }

  Fields fields_of(std::span<const MaskPredictRow> rows) const {
    std::vector<const std::vector<std::int64_t>*> sources, targets;
    for (const MaskPredictRow& row : rows) {
      sources.push_back(&source_of(row));
      targets.push_back(&row.tokens);
    }
    const Device host = model_.parameters().device().host();
    const PaddedRows source = padded_rows(sources, host), target = padded_rows(targets, host);
    return {{"source", source.ids},
            {"source_length", source.lengths},
            {"tokens", target.ids},
            {"length", target.lengths}};
  }

  // Returns the source encoding of each row.
  EncoderOutput chosen(const EncoderOutput& side, std::span<const MaskPredictRow> rows) const {
    const Shape& shape = side.rows.shape();
    const auto count = std::ssize(rows);
    std::vector<std::int64_t> ids, lengths;
    for (const MaskPredictRow& row : rows) {
      ids.push_back(row.of);
      lengths.push_back(std::ssize(source_of(row)));
    }
    const Device& device = model_.parameters().device();
    EncoderOutput result = side;
    result.length = host_field(lengths, {count}, device);
    const std::int64_t width = shape[1] * shape[2];
    if (width == 0)
      result.rows =
          Variable(Tensor::empty(shape.with(0, count), side.rows.value().dtype(), device));
    else
      result.rows = reshape(
          embedding(
              reshape(side.rows, {shape[0], width}), host_field(ids, {count, 1}, device), 0, 1),
          shape.with(0, count));
    return result;
  }

  const Model& model_;
  NatTargets masked_;
  std::span<const std::vector<std::int64_t>> sources_;
  const MaskedSearchOptions& options_;
  std::vector<EncoderOutput> sides_;
  std::vector<std::int64_t> lengths_;
};

}  // namespace

std::string problem_of(const MaskedSearchOptions& options) {
  if (options.iterations < 1)
    return fmt::format("iterations: expected at least 1, found {}", options.iterations);
  if (options.lengths < 1)
    return fmt::format("length beam: expected at least 1, found {}", options.lengths);
  if (options.n_best < 1 || options.n_best > options.lengths)
    return fmt::format(
        "n-best: expected 1 to the length beam of {}, found {}", options.lengths, options.n_best);
  return "";
}

std::vector<std::vector<Hypothesis>> masked_search(
    const Model& model,
    std::span<const std::vector<std::int64_t>> sources,
    std::span<const SearchInput> inputs,
    const MaskedSearchOptions& options) {
  const NoGradGuard unrecorded;
  throw_if_error(problem_of(options));
  const NatTargets masked = model.body().end().masked.value();
  const MaskedReader reader(model, sources, options);
  std::vector<MaskPredictInput> tried;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    tried.push_back(
        {.index = inputs[i].index,
         .lengths = candidate_lengths(reader.lengths()[i], options.lengths, inputs[i].longest)});
  MaskPredictOptions how = {
      .end = options.vocabulary.end,
      .mask = masked.mask,
      .remask = masked.masking != NatObjective::refined,
      // NatObjective::all never trains with visible tokens, so more iterations do not apply.
      .iterations = masked.masking == NatObjective::all ? 1 : options.iterations,
      .n_best = options.n_best};
  if (masked.masking != NatObjective::random && masked.first == NatDecoderInput::source)
    how.first = [&](std::int64_t of, std::int64_t n) {
      const auto& source = sources[static_cast<std::size_t>(of)];
      std::vector<std::int64_t> words;
      for (std::int64_t t = 0; t < n; ++t)
        words.push_back(
            source[static_cast<std::size_t>(uniform_copy_position(t, n, std::ssize(source)))]);
      return words;
    };
  return mask_predict(
      [&](std::span<const MaskPredictRow> rows) { return reader(rows); }, tried, how);
}

}  // namespace longspan
