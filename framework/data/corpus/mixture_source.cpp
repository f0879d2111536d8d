#include "framework/data/corpus/mixture_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "framework/core/error.h"

namespace longspan {

WeightedMixtureSource::WeightedMixtureSource(std::vector<MixtureComponent> texts,
                                             const MixtureOptions& reading,
                                             int rank,
                                             int ranks,
                                             const Device& device)
    : texts_(std::move(texts)),
      reading_(reading),
      range_(streams_of_rank(reading.layout.streams, rank, ranks, "data.global_batch_size")),
      device_(device) {
  require(reading_.layout.segment >= 1,
          "expected a segment of at least 1 token, found {}",
          reading_.layout.segment);
  require(!texts_.empty(), "expected at least one file, found none");
  for (const MixtureComponent& text : texts_) {
    require(text.weight > 0, "expected a weight above 0, found {}", text.weight);
    are_texts_ = are_texts_ && text.documents.corpus().is_text();
    if (reading_.reset_attention_mask && text.documents.corpus().tokens() == text.documents.count())
      throw DataError(
          "{}: data.documents.reset_attention_mask requires a document of at least 2 tokens",
          text.documents.corpus().path());
  }
  for (std::int64_t stream = range_.begin; stream < range_.end; ++stream) {
    Cursor cursor{.stream = stream, .taken = std::vector<Taken>(texts_.size())};
    begin_document(cursor);
    cursors_.push_back(std::move(cursor));
  }
}

const Corpus& WeightedMixtureSource::corpus_of(const Cursor& cursor) const {
  return texts_[static_cast<std::size_t>(cursor.text)].documents.corpus();
}

void WeightedMixtureSource::begin_document(Cursor& cursor) const {
  const auto given = [&](std::size_t text) {
    return static_cast<double>(cursor.taken[text].tokens) / texts_[text].weight;
  };
  std::size_t least = 0;
  for (std::size_t text = 1; text < texts_.size(); ++text)
    if (given(text) < given(least)) least = text;
  cursor.text = static_cast<std::int64_t>(least);
  cursor.offset = 0;
  ++cursor.taken[least].documents;
  find_document(cursor);
}

void WeightedMixtureSource::find_document(Cursor& cursor) const {
  const auto text = static_cast<std::size_t>(cursor.text);
  const DocumentList& documents = texts_[text].documents;
  const std::int64_t number =
      cursor.stream + (cursor.taken[text].documents - 1) * reading_.layout.streams;
  const std::int64_t epoch = number / documents.count();
  std::int64_t document = number % documents.count();
  if (reading_.shuffle) {
    const Random random = Random(reading_.seed)
                              .child("documents")
                              .child(static_cast<std::uint64_t>(text))
                              .child(static_cast<std::uint64_t>(epoch));
    document = shuffled_index(random, documents.count(), document);
  }
  cursor.document = documents.at(document);
  cursor.at = documents.corpus().begin_at(cursor.document.begin +
                                          std::min(cursor.offset, cursor.document.count()));
}

std::int64_t WeightedMixtureSource::read(Cursor& cursor,
                                         std::span<std::int64_t> tokens,
                                         std::span<std::int64_t> places) const {
  std::int64_t bytes = 0;
  for (std::size_t done = 0; done < tokens.size();) {
    if (cursor.offset == cursor.document.count()) begin_document(cursor);
    const bool is_first = cursor.offset == 0;
    // The first token of an isolated document is no target.
    const bool is_alone = is_first && reading_.reset_attention_mask;
    const std::int64_t wanted = is_alone
                                    ? 1
                                    : std::min(std::ssize(tokens) - static_cast<std::int64_t>(done),
                                               cursor.document.count() - cursor.offset);
    const auto count = static_cast<std::size_t>(wanted);
    const CorpusPosition after = corpus_of(cursor).read(cursor.at, tokens.subspan(done, count));
    for (std::size_t i = 0; i < count; ++i)
      places[done + i] = cursor.offset + static_cast<std::int64_t>(i);
    if (!is_alone) bytes += after.byte - cursor.at.byte;
    cursor.at = after;
    cursor.offset += wanted;
    cursor.taken[static_cast<std::size_t>(cursor.text)].tokens += wanted;
    done += count;
  }
  return bytes;
}

void WeightedMixtureSource::read_row(std::int64_t row, Batch& batch) {
  Cursor& cursor = cursors_[static_cast<std::size_t>(row)];
  const auto row_of = [&](const char* name) {
    return batch.field(name).slice(row, row + 1).span<std::int64_t>();
  };
  const std::span<std::int64_t> tokens = row_of("tokens"), targets = row_of("targets");
  std::vector<std::int64_t> places(tokens.size() + 1);
  const std::span<std::int64_t> all(places);
  read(cursor, tokens.first(1), all.first(1));
  std::int64_t bytes = read(cursor, tokens.subspan(1), all.subspan(1, tokens.size() - 1));
  std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
  Cursor later = cursor;
  bytes += read(later, targets.last(1), all.last(1));
  if (are_texts_) batch.counts["bytes"] += bytes;
  if (!reading_.reset_attention_mask) return;
  std::ranges::copy(all.first(tokens.size()), row_of("document_position").begin());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (all[i + 1] != 0) continue;
    targets[i] = ignored_target;
    --batch.counts["tokens"];
  }
}

Batch WeightedMixtureSource::next() {
  const Shape shape{range_.count(), reading_.layout.segment};
  Batch batch;
  for (const char* name : {"tokens", "targets"})
    batch.fields[name] = Tensor::empty(shape, DType::i64, device_, MemoryTag::workspace);
  if (reading_.reset_attention_mask)
    batch.fields["document_position"] =
        Tensor::empty(shape, DType::i64, device_, MemoryTag::workspace);
  const Cursor& first = cursors_[0];
  std::int64_t read = 0;
  for (const Taken& taken : first.taken) read += taken.tokens;
  batch.first_row = range_.begin;
  batch.resets_state = read == 0;
  batch.place = fmt::format("at token {} of each stream, in {}", read, corpus_of(first).path());
  batch.counts = {{"tokens", shape.elements()}, {"bytes", 0}};
  for (std::int64_t row = 0; row < range_.count(); ++row) read_row(row, batch);
  return batch;
}

Tensor WeightedMixtureSource::cursors() const {
  const Tensor state =
      Tensor::empty({range_.count(), columns()}, DType::i64, device_, MemoryTag::workspace);
  auto value = state.span<std::int64_t>().begin();
  for (const Cursor& cursor : cursors_) {
    *value++ = cursor.text;
    *value++ = cursor.offset;
    for (const Taken& taken : cursor.taken) {
      *value++ = taken.documents;
      *value++ = taken.tokens;
    }
  }
  return state;
}

void WeightedMixtureSource::restore(const Tensor& cursors) {
  if (cursors.dtype() != DType::i64 || cursors.shape() != Shape{range_.count(), columns()})
    throw DataError(
        "the checkpoint's data position does not fit the {} files of data.train; restore "
        "data.train, data.shuffle, data.documents.reset_attention_mask and data.global_batch_size, "
        "or start a new run with training.init_from.path",
        texts_.size());
  const auto values = cursors.span<std::int64_t>();
  std::vector<Cursor> restored;
  for (std::int64_t row = 0; row < range_.count(); ++row) {
    const auto of_row = values.subspan(static_cast<std::size_t>(row * columns()),
                                       static_cast<std::size_t>(columns()));
    Cursor cursor{
        .stream = range_.begin + row, .text = of_row[0], .offset = of_row[1], .taken = {}};
    for (std::size_t text = 0; text < texts_.size(); ++text)
      cursor.taken.push_back({of_row[2 + 2 * text], of_row[3 + 2 * text]});
    const auto is_possible = [&] {
      if (std::ranges::any_of(of_row, [](std::int64_t value) { return value < 0; })) return false;
      return cursor.text < std::ssize(texts_) &&
             cursor.taken[static_cast<std::size_t>(cursor.text)].documents >= 1;
    };
    if (!is_possible())
      throw DataError(
          "stream {} resumes at token {} of document {} of file {}, which does not exist; restore "
          "the data of the checkpoint",
          cursor.stream,
          cursor.offset,
          cursor.text < std::ssize(texts_) && cursor.text >= 0
              ? cursor.taken[static_cast<std::size_t>(cursor.text)].documents
              : 0,
          cursor.text);
    find_document(cursor);
    // A changed text, which is reported elsewhere, may have a shorter document.
    cursor.offset = std::min(cursor.offset, cursor.document.count());
    restored.push_back(std::move(cursor));
  }
  cursors_ = std::move(restored);
}

std::int64_t shuffled_index(const Random& random, std::int64_t count, std::int64_t at) {
  require(
      count >= 1 && at >= 0 && at < count, "position {} is out of range ({} positions)", at, count);
  constexpr std::uint64_t rounds = 6;
  const auto width = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count - 1)));
  const int half = std::max(1, (width + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  auto value = static_cast<std::uint64_t>(at);
  do {
    std::uint64_t left = value >> half, right = value & mask;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const auto words = random.block(right * rounds + round);
      const std::uint64_t mixed = words[0] | (std::uint64_t{words[1]} << 32);
      left = std::exchange(right, left ^ (mixed & mask));
    }
    value = (left << half) | right;
  } while (value >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(value);
}

}  // namespace longspan
