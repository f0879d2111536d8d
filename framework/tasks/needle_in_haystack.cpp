
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <string>

#include "framework/core/error.h"
#include "framework/core/format.h"
#include "framework/core/random.h"
#include "framework/tasks/evaluation.h"

namespace longspan {
namespace {

using Ids = std::vector<std::int64_t>;

constexpr std::int64_t max_examples = 1 << 20;

// Token ids of a needle.
struct BeamState {
  Ids question;
  Ids answer;
  Ids end;

  BeamState(const Tokenizer& tokenizer, const Needle& needle)
      : question(tokenizer.encode(needle.question, "a needle")),
        answer(tokenizer.encode(needle.answer, "a needle")),
        end(tokenizer.encode(needle.end, "a needle")) {}
  std::int64_t size() const { return std::ssize(question) + std::ssize(answer) + std::ssize(end); }
};

// Token ids of an example, with the start of the answer.
struct Example {
  Ids tokens;  // one more than the segment: the last token is only a target
  std::int64_t answer = 0;
  std::int64_t distance = 0;  // from the needle's number to the answer
};

Example make_example(const Corpus& corpus, const NeedleOptions& options, std::int64_t index) {
  const BeamState sentence(corpus.tokenizer(), needle_of(index));
  const std::int64_t tail = std::ssize(sentence.question) + std::ssize(sentence.answer);
  const std::int64_t least = tail + sentence.size() - 1;
  const std::int64_t text = options.segment - least;
  if (text < 0)
    throw ConfigurationError(
        "--needle-in-haystack: expected segments of at least {} tokens for "
        "the needle and the question, found {}",
        least,
        options.segment);
  const std::int64_t depth = index / options.count;
  const std::int64_t before = options.depths == 1 ? 0 : text * depth / (options.depths - 1);
  Ids stretch(static_cast<std::size_t>(text));
  const std::int64_t places = corpus.tokens() - text + 1;
  corpus.read(corpus.seek(places * index / (options.depths * options.count)), stretch);

  Example example;
  const auto add = [&](const auto& part) {
    example.tokens.insert(example.tokens.end(), part.begin(), part.end());
  };
  const std::span<const std::int64_t> all(stretch);
  add(all.first(static_cast<std::size_t>(before)));
  add(sentence.question);
  add(sentence.answer);
  add(sentence.end);
  add(all.subspan(static_cast<std::size_t>(before)));
  add(sentence.question);
  add(sentence.answer);
  example.answer = std::ssize(example.tokens) - std::ssize(sentence.answer);
  example.distance = example.answer - before - std::ssize(sentence.question);
  return example;
}

// Sums over this rank's positions, per example.
struct Sums {
  std::vector<double> losses;
  std::vector<double> tokens;    // of answers
  std::vector<double> mistaken;  // answer tokens with a probability of at most 1/2
  std::vector<double> distances;
};

// Evaluates the examples first .. first + rows. Indices beyond the last example wrap around and do
// not count.
void read_examples(const Model& model,
                   const Corpus& corpus,
                   const NeedleOptions& options,
                   const Range& examples,
                   Sums& sums) {
  const std::int64_t all = std::ssize(sums.losses);
  const Shape shape = {examples.count(), options.segment};
  const Device host = model.parameters().device().host();
  const Tensor tokens = Tensor::empty(shape, DType::i64, host, MemoryTag::workspace);
  const Tensor targets = tokens.empty_like();
  std::ranges::fill(targets.span<std::int64_t>(), ignored_target);
  const ProcessMesh& mesh = model.parameters().mesh();
  for (std::int64_t row = 0; row < examples.count(); ++row) {
    const std::int64_t index = examples.begin + row;
    const Example example = make_example(corpus, options, index % all);
    std::copy(example.tokens.begin(),
              example.tokens.end() - 1,
              tokens.slice(row, row + 1).span<std::int64_t>().begin());
    const auto answer = targets.slice(row, row + 1).span<std::int64_t>();
    std::copy(example.tokens.begin() + example.answer,
              example.tokens.end(),
              answer.begin() + example.answer - 1);
    // Context ranks read the same examples.
    if (index < all && mesh.context.rank() == 0)
      sums.distances[static_cast<std::size_t>(index)] = static_cast<double>(example.distance);
  }
  const std::vector<double> losses = row_losses(
      model.losses({.fields = {{"tokens", tokens}, {"targets", targets}}}, ForwardContext{}));
  const Ranges positions = shard_sequence(mesh, options.segment).inside();
  auto loss = losses.begin();
  for (std::int64_t index = examples.begin; index < examples.end; ++index) {
    const auto wanted =
        targets.slice(index - examples.begin, index - examples.begin + 1).span<std::int64_t>();
    for (const Range& range : positions)
      for (std::int64_t position = range.begin; position < range.end; ++position) {
        require(loss != losses.end(), "a loss has no position");
        const double here = *loss++;
        if (index >= all || wanted[static_cast<std::size_t>(position)] == ignored_target) continue;
        const auto i = static_cast<std::size_t>(index);
        sums.losses[i] += here;
        sums.tokens[i] += 1;
        if (!(here < std::numbers::ln2)) sums.mistaken[i] += 1;
      }
  }
}

}  // namespace

Needle needle_of(std::int64_t example) {
  const Random random = Random(0).child("needles").child(static_cast<std::uint64_t>(example));
  return {fmt::format("\nThe number of room {} is", random.word(0) % 9000 + 1000),
          fmt::format(" {}", random.word(1) % 90000 + 10000),
          ".\n"};
}

std::vector<NeedlePosition> evaluate_needles(const Model& model,
                                             const Corpus& corpus,
                                             const NeedleOptions& options) {
  check_segment(model, options.segment);
  if (options.count > max_examples / options.depths)
    throw ConfigurationError(
        "--needle-in-haystack: expected at most {} in total, found {} at each "
        "of {} (--num-depths)",
        max_examples,
        options.count,
        pluralize(options.depths, "depth"));
  if (corpus.tokenizer().kind() == TokenizerKind::ids)
    throw DataError("{}: --needle-in-haystack requires text, found token ids", corpus.path());
  if (corpus.tokens() < options.segment)
    throw DataError("{}: expected at least {} tokens (one segment), found {}",
                    corpus.path(),
                    options.segment,
                    corpus.tokens());
  const ProcessMesh& mesh = model.parameters().mesh();
  const StreamRange own =
      streams_of_rank(options.batch, mesh.data_coordinate(), mesh.data.size(), "--batch-size");
  const std::int64_t examples = options.depths * options.count;
  const std::vector<double> none(static_cast<std::size_t>(examples));
  Sums sums = {.losses = none, .tokens = none, .mistaken = none, .distances = none};
  const NoGradGuard unrecorded;
  for (std::int64_t first = 0; first < examples; first += options.batch) {
    read_examples(model, corpus, options, {first + own.begin, first + own.end}, sums);
    const double share = static_cast<double>(std::min(first + options.batch, examples)) /
                         static_cast<double>(examples);
    const std::int64_t size = corpus.bytes();
    if (options.listener)
      options.listener(
          {corpus.path(), static_cast<std::int64_t>(share * static_cast<double>(size)), size});
  }

  for (auto* each : {&sums.losses, &sums.tokens, &sums.mistaken, &sums.distances})
    *each = sum_over(mesh.replicas, *each);
  std::vector<NeedlePosition> places;
  for (std::int64_t depth = 0; depth < options.depths; ++depth) {
    NeedlePosition place;
    double tokens = 0;
    double distance = 0;
    for (std::int64_t e = depth * options.count; e < (depth + 1) * options.count; ++e) {
      const auto i = static_cast<std::size_t>(e);
      place.loss += sums.losses[i];
      tokens += sums.tokens[i];
      distance += sums.distances[i];
      if (sums.mistaken[i] == 0) ++place.found;
    }
    place.loss /= tokens;
    place.distance = std::llround(distance / static_cast<double>(options.count));
    places.push_back(place);
  }
  return places;
}

}  // namespace longspan
