#include "framework/data/corpus/stream_reader.h"

#include <fmt/format.h>

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

StreamSource::StreamSource(
    Corpus corpus, const StreamLayout& layout, int rank, int ranks, const Device& device)
    : corpus_(std::move(corpus)),
      layout_(layout),
      range_(streams_of_rank(layout.streams, rank, ranks, "data.global_batch_size")),
      stream_tokens_(corpus_.tokens() / layout.streams),
      device_(device) {
  require(
      layout_.segment >= 1, "expected a segment of at least 1 token, found {}", layout_.segment);
  if (stream_tokens_ <= layout_.segment)
    throw DataError(
        "{}: expected at least {} tokens (data.global_batch_size = {} streams of data.seq_length + "
        "1 = {}), found {}",
        corpus_.path(),
        layout_.streams * (layout_.segment + 1),
        layout_.streams,
        layout_.segment + 1,
        corpus_.tokens());
  for (std::int64_t stream = range_.begin; stream < range_.end; ++stream)
    cursors_.push_back(cursor_at(stream, 0, 0));
}

StreamSource::Cursor StreamSource::cursor_at(std::int64_t stream,
                                             std::int64_t position,
                                             std::int64_t epoch) const {
  return {position, epoch, corpus_.seek(stream * stream_tokens_ + position)};
}

std::int64_t StreamSource::offset_of(std::int64_t epoch) const {
  // Tokens of the last stream that an epoch omits.
  const std::int64_t last = corpus_.tokens() - 1 - (layout_.streams - 1) * stream_tokens_ -
                            batches_per_epoch() * layout_.segment;
  return epoch == 0 ? 0 : last - (epoch - 1) % (last + 1);
}

Batch StreamSource::next() {
  // All streams have equal length and advance together, so that the first one suffices.
  const std::int64_t epoch = cursors_[0].epoch;
  const std::int64_t end = offset_of(epoch) + batches_per_epoch() * layout_.segment;
  if (cursors_[0].position + layout_.segment > end) {
    for (std::size_t i = 0; i < cursors_.size(); ++i)
      cursors_[i] =
          cursor_at(range_.begin + static_cast<std::int64_t>(i), offset_of(epoch + 1), epoch + 1);
  }
  const Shape shape{range_.count(), layout_.segment};
  Batch batch;
  for (const char* name : {"tokens", "targets"})
    batch.fields[name] = Tensor::empty(shape, DType::i64, device_, MemoryTag::workspace);
  batch.first_row = range_.begin;
  batch.resets_state = cursors_[0].position == offset_of(cursors_[0].epoch);
  batch.place = fmt::format(
      "at token {} of each stream in epoch {}", cursors_[0].position, cursors_[0].epoch);
  batch.counts = {{"tokens", shape.elements()}, {"bytes", 0}};
  for (std::int64_t row = 0; row < range_.count(); ++row)
    read_row(cursors_[static_cast<std::size_t>(row)], row, batch);
  return batch;
}

void StreamSource::read_row(Cursor& cursor, std::int64_t row, Batch& batch) const {
  cursor.at = corpus_.read_pairs(cursor.at,
                                 batch.field("tokens").slice(row, row + 1).span<std::int64_t>(),
                                 batch.field("targets").slice(row, row + 1).span<std::int64_t>(),
                                 batch.counts["bytes"]);
  cursor.position += layout_.segment;
}

Tensor StreamSource::cursors() const {
  const Tensor state =
      Tensor::empty({range_.count(), 2}, DType::i64, device_, MemoryTag::workspace);
  const auto values = state.span<std::int64_t>();
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    values[2 * i] = cursors_[i].position;
    values[2 * i + 1] = cursors_[i].epoch;
  }
  return state;
}

void StreamSource::restore(const Tensor& cursors) {
  if (cursors.dtype() != DType::i64 || cursors.shape() != Shape{range_.count(), 2})
    throw DataError(
        "expected data positions of shape [{}, 2] and dtype i64, found shape {}; restore the "
        "weights of data.train, data.shuffle and data.documents.reset_attention_mask",
        range_.count(),
        cursors.shape().to_string());
  const auto values = cursors.span<std::int64_t>();
  std::vector<Cursor> restored;
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    const std::int64_t stream = range_.begin + static_cast<std::int64_t>(i);
    const std::int64_t position = values[2 * i];
    const std::int64_t epoch = values[2 * i + 1];
    const std::int64_t last = corpus_.tokens() - 1 - (layout_.streams - 1) * stream_tokens_;
    if (position < 0 || position > last || epoch < 0)
      throw DataError(
          "{}: stream {} resumes at token {} of epoch {}, but has {} tokens; restore the data of "
          "the checkpoint",
          corpus_.path(),
          stream,
          position,
          epoch,
          stream_tokens_);
    if (position != values[0] || epoch != values[1])
      throw DataError(
          "{}: expected equal positions in all streams, found stream {} at token {} of epoch {} "
          "and stream {} at token {} of epoch {}",
          corpus_.path(),
          range_.begin,
          values[0],
          values[1],
          stream,
          position,
          epoch);
    restored.push_back(cursor_at(stream, position, epoch));
  }
  cursors_ = std::move(restored);
}

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
