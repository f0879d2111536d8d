#include "framework/data/corpus/evaluation_reader.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"

namespace longspan {

namespace {

std::int64_t bytes_of_token(const Corpus& corpus, std::int64_t token) {
  const CorpusPosition at = corpus.begin_at(token);
  std::int64_t id = 0;
  return corpus.read(at, {&id, 1}).byte - at.byte;
}

}  // namespace

EvaluationReader::EvaluationReader(Corpus corpus,
                                   const StreamLayout& layout,
                                   int rank,
                                   int ranks,
                                   const Device& device,
                                   std::int64_t most,
                                   std::optional<std::int64_t> piece)
    : corpus_(std::move(corpus)),
      layout_(layout),
      range_(streams_of_rank(layout.streams, rank, ranks, "data.global_batch_size")),
      device_(device) {
  require(
      layout_.segment >= 1, "expected a segment of at least 1 token, found {}", layout_.segment);
  require(most >= 0, "expected at least 0 pairs per stream, found {}", most);
  require_pairs(corpus_);
  if (piece) documents_.emplace(corpus_, *piece);
  longest_ = (corpus_.tokens() - 2) / layout_.streams + 1;
  if (most > 0) longest_ = std::min(longest_, most);
  rewind();
}

std::int64_t EvaluationReader::stream_begin(std::int64_t stream) const {
  // Computing quotient and remainder separately avoids overflow.
  const std::int64_t pairs = corpus_.tokens() - 1;
  return pairs / layout_.streams * stream + pairs % layout_.streams * stream / layout_.streams;
}

std::int64_t EvaluationReader::pairs_of(std::int64_t stream) const {
  return std::min(longest_, stream_begin(stream + 1) - stream_begin(stream));
}

std::int64_t EvaluationReader::batches() const { return (longest_ - 1) / layout_.segment + 1; }

void EvaluationReader::rewind() {
  next_ = 0;
  at_.clear();
  for (std::int64_t stream = range_.begin; stream < range_.end; ++stream)
    at_.push_back(corpus_.seek(stream_begin(stream)));
}

Batch EvaluationReader::next() {
  require(!done(), "{}: the evaluation has already finished", corpus_.path());
  const std::int64_t before = next_ * layout_.segment;
  const std::int64_t width = std::min(layout_.segment, longest_ - before);
  const Shape shape{range_.count(), width};
  Batch batch;
  const Tensor tokens = Tensor::zeros(shape, DType::i64, device_, MemoryTag::workspace);
  const Tensor targets = Tensor::empty(shape, DType::i64, device_, MemoryTag::workspace);
  std::ranges::fill(targets.span<std::int64_t>(), ignored_target);
  batch.fields = {{"tokens", tokens}, {"targets", targets}};
  if (documents_)
    batch.fields["document_position"] =
        Tensor::zeros(shape, DType::i64, device_, MemoryTag::workspace);
  batch.first_row = range_.begin;
  batch.resets_state = next_ == 0;
  std::int64_t& predicted = batch.counts["tokens"];
  std::int64_t& bytes = batch.counts["bytes"];
  for (std::int64_t row = 0; row < range_.count(); ++row) {
    CorpusPosition& at = at_[static_cast<std::size_t>(row)];
    const std::int64_t left = pairs_of(range_.begin + row) - before;
    if (left <= 0) continue;
    const auto count = static_cast<std::size_t>(std::min(width, left));
    const CorpusPosition first = at;
    at = corpus_.read_pairs(at,
                            tokens.slice(row, row + 1).span<std::int64_t>().first(count),
                            targets.slice(row, row + 1).span<std::int64_t>().first(count),
                            bytes);
    predicted += static_cast<std::int64_t>(count);
    if (documents_) set_apart(first.token, row, static_cast<std::int64_t>(count), batch);
  }
  ++next_;
  return batch;
}

void EvaluationReader::set_apart(std::int64_t token,
                                 std::int64_t row,
                                 std::int64_t count,
                                 Batch& batch) const {
  const auto places = batch.field("document_position").slice(row, row + 1).span<std::int64_t>();
  const auto targets = batch.field("targets").slice(row, row + 1).span<std::int64_t>();
  std::int64_t document = documents_->document_of(token);
  Range range = documents_->at(document);
  for (std::int64_t i = 0; i < count; ++i) {
    if (token + i == range.end) range = documents_->at(++document);
    places[static_cast<std::size_t>(i)] = token + i - range.begin;
    const std::int64_t next = token + i + 1;
    if (next < range.end) continue;
    targets[static_cast<std::size_t>(i)] = ignored_target;
    --batch.counts["tokens"];
    if (corpus_.is_text()) batch.counts["bytes"] -= bytes_of_token(corpus_, next);
  }
}

}  // namespace longspan
