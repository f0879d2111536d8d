#include "framework/tasks/sequence_level.h"

#include <algorithm>
#include <cmath>

#include "framework/data/examples/examples.h"
#include "framework/decoding/top_k.h"
#include "framework/modeling/sequence_level.h"
#include "framework/tasks/translate.h"

namespace longspan {
namespace {

// Candidates of one pass, which each cache the keys of their positions.
constexpr std::int64_t max_candidates_per_pass = 1024;

std::span<const std::int64_t> ids_of_row(const Batch& batch,
                                         const char* field,
                                         const char* length,
                                         std::int64_t row) {
  const Tensor& ids = batch.field(field);
  return {ids.data<std::int64_t>() + row * ids.shape()[1],
          static_cast<std::size_t>(batch.field(length).data<std::int64_t>()[row])};
}

// Returns the target of a pair without its end token and a forced first one.
std::span<const std::int64_t> reference_of(const Batch& pairs,
                                           const SpecialTokenIds& special,
                                           std::int64_t row) {
  std::span<const std::int64_t> ids = ids_of_row(pairs, "targets", "length", row);
  if (!ids.empty() && ids.back() == special.end) ids = ids.first(ids.size() - 1);
  if (special.first && !ids.empty() && ids.front() == *special.first) ids = ids.subspan(1);
  return ids;
}

std::vector<std::int64_t> rows_with_pairs(const Batch& pairs) {
  std::vector<std::int64_t> rows;
  const auto lengths = pairs.field("length").span<std::int64_t>();
  for (std::int64_t row = 0; row < std::ssize(lengths); ++row)
    if (lengths[static_cast<std::size_t>(row)] > 0) rows.push_back(row);
  return rows;
}

// Number of predicted tokens.
std::int64_t tokens_of(const Hypothesis& one) {
  return std::ssize(one.tokens) + (one.ended ? 1 : 0);
}

bool is_equal(const Hypothesis& a, const Hypothesis& b) {
  return a.tokens == b.tokens && a.ended == b.ended;
}

// Returns for each sample whether no earlier one is equal.
std::vector<bool> first_occurrences(const std::vector<Hypothesis>& samples) {
  std::vector<bool> result;
  for (auto one = samples.begin(); one != samples.end(); ++one)
    result.push_back(std::none_of(
        samples.begin(), one, [&](const Hypothesis& other) { return is_equal(other, *one); }));
  return result;
}

// Replaces the hypotheses by those of the first rank, since ranks may round differently.
void share_samples(std::vector<PairCandidates>& found,
                   std::int64_t longest,
                   const ProcessMesh& mesh) {
  if (mesh.tensor.size() * mesh.context.size() == 1) return;
  std::vector<Hypothesis*> all;
  for (PairCandidates& pair : found)
    for (Hypothesis& one : pair.samples) all.push_back(&one);
  // Length, whether it has ended, and tokens.
  const std::int64_t width = longest + 2;
  const Tensor ids = full_tensor({std::ssize(all), width}, 0);
  const Tensor scores =
      Tensor::zeros({std::ssize(all)}, DType::f64, Device::cpu(), MemoryTag::workspace);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto row = row_of(ids, i);
    row[0] = std::ssize(all[i]->tokens);
    row[1] = all[i]->ended ? 1 : 0;
    std::ranges::copy(all[i]->tokens, row.begin() + 2);
    scores.data<double>()[i] = all[i]->log_probability;
  }
  for (const Communicator* const ranks : {&mesh.tensor, &mesh.context})
    for (const Tensor& tensor : {ids, scores}) ranks->broadcast(tensor, 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto row = row_of(ids, i);
    all[i]->tokens.assign(row.begin() + 2, row.begin() + 2 + row[0]);
    all[i]->ended = row[1] == 1;
    all[i]->log_probability = scores.data<double>()[i];
  }
}

// A batch of `rows` empty rows, and the tokens of its rows.
class RowWriter {
 public:
  RowWriter(std::int64_t rows, std::int64_t columns, const SpecialTokenIds& special)
      : special_(special),
        tokens_(full_tensor({rows, columns}, 0)),
        targets_(full_tensor({rows, columns}, ignored_target)),
        length_(full_tensor({rows}, 0)),
        weights_(zeros({rows, columns})) {}

  // Writes a candidate, with the weight of each of its tokens. A forced first token has no loss.
  void write(std::size_t row, const Hypothesis& one, double weight) {
    const auto tokens = row_of(tokens_, row), targets = row_of(targets_, row);
    const std::size_t before = special_.first ? 1 : 0;
    const auto count = static_cast<std::size_t>(tokens_of(one));
    tokens[0] = special_.begin;
    if (special_.first) tokens[1] = *special_.first;
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_end = i == one.tokens.size();
      targets[before + i] = is_end ? special_.end : one.tokens[i];
      if (i + 1 < count) tokens[before + i + 1] = one.tokens[i];
    }
    length_.span<std::int64_t>()[row] = static_cast<std::int64_t>(before + count);
    std::fill_n(weights_.data<double>() + static_cast<std::int64_t>(row) * weights_.shape()[1] +
                    static_cast<std::int64_t>(before),
                count,
                weight);
  }

  // Copies the target of a pair.
  void write_reference(std::size_t row, const Batch& pairs, std::int64_t pair) {
    const auto tokens = ids_of_row(pairs, "tokens", "length", pair);
    const auto targets = ids_of_row(pairs, "targets", "length", pair);
    std::ranges::copy(tokens, row_of(tokens_, row).begin());
    std::ranges::copy(targets, row_of(targets_, row).begin());
    length_.span<std::int64_t>()[row] = std::ssize(targets);
    references_.push_back(row);
  }

  Fields fields(bool with_references) const {
    Fields result = {{"tokens", tokens_},
                     {"targets", targets_},
                     {"length", length_},
                     {"candidate_weights", weights_}};
    if (!with_references) return result;
    const std::int64_t columns = weights_.shape()[1];
    const Tensor of_references = zeros(weights_.shape());
    for (const std::size_t row : references_)
      std::fill_n(of_references.data<double>() + static_cast<std::int64_t>(row) * columns,
                  length_.span<std::int64_t>()[row],
                  1.0);
    result["reference_weights"] = of_references;
    return result;
  }
  std::int64_t tokens() const {
    std::int64_t sum = 0;
    for (const std::int64_t length : length_.span<std::int64_t>()) sum += length;
    return sum;
  }

  static Tensor zeros(const Shape& shape) {
    return Tensor::zeros(shape, DType::f64, Device::cpu(), MemoryTag::workspace);
  }

 private:
  const SpecialTokenIds& special_;
  Tensor tokens_, targets_, length_, weights_;
  std::vector<std::size_t> references_;
};

// [rows * times, ...]: each row of an i64 field, repeated in succession.
Tensor repeated_rows(const Tensor& field, std::int64_t times) {
  const std::int64_t rows = field.shape()[0],
                     width = field.elements() / std::max<std::int64_t>(rows, 1);
  const Tensor result = full_tensor(field.shape().with(0, rows * times), 0);
  for (std::int64_t row = 0; row < rows * times; ++row)
    std::copy_n(field.data<std::int64_t>() + row / times * width,
                width,
                result.data<std::int64_t>() + row * width);
  return result;
}

std::int64_t padded_columns(std::int64_t columns, std::int64_t multiple) {
  return (columns + multiple - 1) / multiple * multiple;
}

}  // namespace

CandidateSource::CandidateSource(std::unique_ptr<BatchSource> pairs,
                                 const Model& model,
                                 const CandidateContext& context)
    : pairs_(std::move(pairs)),
      model_(&model),
      context_(context),
      special_(sentence_ids(context_.tokenizer, context_.special_tokens)) {}

Batch CandidateSource::next() {
  const Batch pairs = pairs_->next();
  std::vector<PairCandidates> found = candidates_of(pairs);
  return arranged(pairs, found);
}

std::vector<PairCandidates> CandidateSource::candidates_of(const Batch& pairs) const {
  const NoGradGuard unrecorded;
  const SequenceLevelOptions& options = context_.options;
  const std::int64_t before = special_.first ? 2 : 1;  // tokens read before the first prediction
  // Columns are padded to a multiple, which the model must support too.
  const std::int64_t multiple = context_.length_multiple;
  std::int64_t limit = model_->body().max_segment_length();
  if (limit >= multiple) limit = limit / multiple * multiple;
  Random random = Random(context_.seed).child("candidates");
  const auto position = pairs_->cursors();  // epoch and batch, which follow this one
  for (std::int64_t i = 0; i < 2; ++i)
    random = random.child(static_cast<std::uint64_t>(position.data<std::int64_t>()[i]));
  const std::uint64_t seed = std::uint64_t{random.word(0)} << 32 | std::uint64_t{random.word(1)};
  const std::vector<std::int64_t> rows = rows_with_pairs(pairs);
  const bool with_greedy = options.method == SequenceLevelMethod::self_critical;
  std::vector<PairCandidates> found;
  std::int64_t longest = 0;
  const auto each = static_cast<std::size_t>(
      std::max<std::int64_t>(max_candidates_per_pass / options.candidates, 1));
  for (std::size_t first = 0; first < rows.size(); first += each) {
    std::vector<std::vector<std::int64_t>> sources;
    std::vector<SearchInput> inputs;
    for (std::size_t i = first; i < std::min(first + each, rows.size()); ++i) {
      const auto source = ids_of_row(pairs, "source", "source_length", rows[i]);
      sources.emplace_back(source.begin(), source.end());
      std::int64_t most = std::ssize(reference_of(pairs, special_, rows[i])) + options.extra_length;
      if (limit > 0) most = std::min(most, limit - before);
      most = std::max<std::int64_t>(most, 1);
      longest = std::max(longest, most);
      inputs.push_back(
          {.index = pairs.first_row + rows[i], .first = special_.begin, .longest = most});
    }
    const auto sampled = [&](std::int64_t samples, const SamplingOptions& sampling) {
      return sample(target_step(*model_, sources, special_),
                    inputs,
                    {.vocabulary = target_vocabulary(context_.tokenizer, special_),
                     .samples = samples,
                     .seed = seed,
                     .sampling = sampling});
    };
    for (auto& samples : sampled(options.candidates, {.temperature = options.temperature}))
      found.push_back({std::move(samples)});
    if (!with_greedy) continue;
    const auto greedy = sampled(1, {.temperature = 0});
    for (std::size_t i = 0; i < greedy.size(); ++i)
      found[first + i].samples.push_back(greedy[i].front());
  }
  share_samples(found, longest, model_->parameters().mesh());
  score(pairs, found, with_greedy);
  return found;
}

void CandidateSource::score(const Batch& pairs,
                            std::vector<PairCandidates>& found,
                            bool with_greedy) const {
  const ProcessMesh& mesh = model_->parameters().mesh();
  const SequenceLevelOptions& options = context_.options;
  const auto count = static_cast<std::size_t>(options.candidates + (with_greedy ? 1 : 0));
  const Tensor rewards = RowWriter::zeros({std::ssize(found), static_cast<std::int64_t>(count)});
  const std::vector<std::int64_t> rows = rows_with_pairs(pairs);
  const auto text_of = [&](std::span<const std::int64_t> ids) {
    return decode_sentence(context_.tokenizer, ids, context_.special_tokens);
  };
  if (mesh.tensor.rank() == 0 && mesh.context.rank() == 0)
    for_each_row(found.size(), [&](std::size_t i) {
      const auto reference = reference_of(pairs, special_, rows[i]);
      const bool is_text = options.unit == SentenceUnit::words;
      const std::string text = is_text ? text_of(reference) : "";
      for (std::size_t s = 0; s < count; ++s) {
        const std::vector<std::int64_t>& ids = found[i].samples[s].tokens;
        rewards.data<double>()[i * count + s] =
            is_text ? sentence_score(options.metric, text_of(ids), text, context_.bleu_tokenizer)
                    : sentence_score(options.metric, ids, reference);
      }
    });
  for (const Communicator* const ranks : {&mesh.tensor, &mesh.context})
    ranks->broadcast(rewards, 0);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double* const of_pair = rewards.data<double>() + i * count;
    found[i].rewards.assign(of_pair, of_pair + options.candidates);
    if (!with_greedy) continue;
    found[i].greedy_reward = of_pair[count - 1];
    found[i].samples.pop_back();
  }
}

Batch CandidateSource::arranged(const Batch& pairs, std::vector<PairCandidates>& found) {
  const SequenceLevelOptions& options = context_.options;
  const bool is_risk = options.method == SequenceLevelMethod::minimum_risk;
  const bool with_loss = options.cross_entropy_weight > 0;
  const std::int64_t group = options.rows_per_pair();
  const auto samples = static_cast<std::size_t>(options.candidates);
  const std::vector<std::int64_t> rows = rows_with_pairs(pairs);
  sums_ = {};
  std::int64_t columns = with_loss ? pairs.field("targets").shape()[1] : 1;
  for (std::size_t i = 0; i < found.size(); ++i) {
    PairCandidates& pair = found[i];
    sums_.pairs += 1;
    for (const bool is_new : first_occurrences(pair.samples)) sums_.distinct += is_new ? 1 : 0;
    for (std::size_t s = 0; s < samples; ++s) {
      sums_.rewards += pair.rewards[s];
      sums_.samples += 1;
      sums_.tokens += static_cast<double>(tokens_of(pair.samples[s]));
      sums_.nats -= pair.samples[s].log_probability;
    }
    if (options.with_reference && is_risk) {
      const auto reference = reference_of(pairs, special_, rows[i]);
      pair.samples.back() = {.tokens = {reference.begin(), reference.end()}, .ended = true};
      pair.rewards.back() = 1;
    }
    for (const Hypothesis& one : pair.samples)
      columns = std::max(columns, tokens_of(one) + (special_.first ? 1 : 0));
  }
  // Equal on every layout, as the positions of dropout depend on it.
  columns = model_->parameters().mesh().data.all_reduce(
      padded_columns(columns, context_.length_multiple), Reduction::maximum);

  RowWriter writer(pairs.rows() * group, columns, special_);
  const Tensor present = full_tensor({pairs.rows() * group}, 0);
  const Tensor costs = RowWriter::zeros({pairs.rows() * group});
  Batch batch;
  std::int64_t candidates = 0, tokens = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const PairCandidates& pair = found[i];
    const auto begin = static_cast<std::size_t>(rows[i] * group);
    const std::vector<bool> is_first = first_occurrences(pair.samples);
    const std::vector<double> baselines = options.method == SequenceLevelMethod::leave_one_out
                                              ? leave_one_out_baselines(pair.rewards, samples)
                                              : std::vector<double>(samples, pair.greedy_reward);
    for (std::size_t s = 0; s < samples; ++s) {
      if (is_risk && !is_first[s]) continue;
      const std::int64_t length = tokens_of(pair.samples[s]);
      const double shares = options.normalizes_length ? static_cast<double>(length) : 1.0;
      writer.write(
          begin + s, pair.samples[s], is_risk ? -1 / shares : pair.rewards[s] - baselines[s]);
      present.data<std::int64_t>()[begin + s] = 1;
      costs.data<double>()[begin + s] = 1 - pair.rewards[s];
      candidates += 1;
      tokens += length;
      sums_.baselines += baselines[s];
    }
    if (with_loss) writer.write_reference(begin + samples, pairs, rows[i]);
  }
  batch.fields = writer.fields(with_loss);
  for (const char* const name : {"source", "source_length"})
    batch.fields[name] = repeated_rows(pairs.field(name), group);
  if (is_risk) {
    batch.fields["candidate_present"] = present;
    batch.fields["candidate_costs"] = costs;
  }
  batch.counts = {{"tokens", writer.tokens()},
                  {"candidate_tokens", tokens},
                  {"candidates", candidates},
                  {"reference_tokens", pairs.count("tokens")}};
  for (const char* const name : {"rows", "source_tokens", "bytes"})
    batch.counts[name] = pairs.count(name);
  batch.first_row = pairs.first_row * group;
  batch.resets_state = pairs.resets_state;
  batch.place = pairs.place;
  return batch;
}

std::vector<std::pair<std::string, double>> CandidateSource::metric_values() const {
  const std::vector<double> here = {sums_.rewards,
                                    sums_.baselines,
                                    sums_.samples,
                                    sums_.distinct,
                                    sums_.pairs,
                                    sums_.tokens,
                                    sums_.nats};
  const Tensor all =
      Tensor::from<double>(here, {std::ssize(here)}, Device::cpu(), MemoryTag::workspace);
  model_->parameters().mesh().data.all_reduce(all, Reduction::sum);
  const auto found = all.span<double>();
  const double samples = found[2];
  if (samples == 0) return {};
  std::vector<std::pair<std::string, double>> values = {
      {"reward_mean", found[0] / samples},
      {"distinct_candidates", found[3] / found[4]},
      {"candidate_length", found[5] / samples},
      {"candidate_entropy", found[6] / found[5]}};
  if (context_.options.method != SequenceLevelMethod::minimum_risk)
    values.insert(values.begin() + 1, {"baseline_mean", found[1] / samples});
  return values;
}

Batch meta_candidates(const Batch& pairs, const DataOptions& data) {
  const SequenceLevelOptions& options = data.sequence_level;
  const std::int64_t group = options.rows_per_pair(), rows = pairs.rows() * group;
  const std::int64_t columns = padded_columns(
      pairs.field("targets").shape()[1] + options.extra_length, data.buckets.length_multiple);
  const Device& host = pairs.field("targets").device();
  const auto made = [&](const Shape& shape, DType dtype) {
    return Tensor::empty(shape, dtype, host, MemoryTag::workspace);
  };
  Batch batch = pairs;
  batch.fields.erase("links");
  batch.fields["source"] = made(pairs.field("source").shape().with(0, rows), DType::i64);
  for (const char* const name : {"source_length", "length", "candidate_present"})
    batch.fields[name] = made({rows}, DType::i64);
  for (const char* const name : {"tokens", "targets"})
    batch.fields[name] = made({rows, columns}, DType::i64);
  for (const char* const name : {"candidate_weights", "reference_weights"})
    batch.fields[name] = made({rows, columns}, DType::f64);
  batch.fields["candidate_costs"] = made({rows}, DType::f64);
  batch.first_row = pairs.first_row * group;
  batch.counts = {{"tokens", rows * columns},
                  {"candidate_tokens", rows * columns},
                  {"candidates", rows},
                  {"reference_tokens", pairs.count("tokens")},
                  {"rows", pairs.rows()},
                  {"bytes", pairs.count("bytes")}};
  return batch;
}

}  // namespace longspan
