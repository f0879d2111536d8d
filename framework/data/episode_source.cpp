#include "framework/data/episode_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/error.h"

namespace longspan {

EpisodeSource::EpisodeSource(Environment environment,
                             const EpisodeLayout& layout,
                             const Random& random,
                             int rank,
                             int ranks,
                             const Device& device)
    : environment_(std::move(environment)),
      layout_(layout),
      random_(random),
      range_(streams_of_rank(layout.streams, rank, ranks, "data.global_batch_size")),
      device_(device),
      rows_(static_cast<std::size_t>(range_.count())) {
  require(layout_.segment >= 1, "expected a segment of at least 1 step, found {}", layout_.segment);
  for (std::int64_t i = 0; i < range_.count(); ++i) {
    Row& row = rows_[static_cast<std::size_t>(i)];
    if (layout_.staggered) row.segment = (range_.begin + i) % layout_.segments_of(environment_);
    begin(row, i);
  }
}

void EpisodeSource::begin(Row& row, std::int64_t index) const {
  const auto stream = static_cast<std::uint64_t>(range_.begin + index);
  row.steps =
      environment_.episode(random_.child(stream).child(static_cast<std::uint64_t>(row.episode)));
}

Batch EpisodeSource::next() {
  const Shape shape = {range_.count(), layout_.segment};
  Batch batch;
  for (const char* name : {"tokens", "targets"})
    batch.fields[name] = Tensor::empty(shape, DType::i64, device_, MemoryTag::workspace);
  batch.fields["earlier"] =
      Tensor::empty({range_.count()}, DType::i64, device_, MemoryTag::workspace);
  batch.first_row = range_.begin;
  batch.place =
      fmt::format("at segment {} of episode {} of each stream", rows_[0].segment, rows_[0].episode);
  batch.counts = {{"tokens", 0}, {"rows", range_.count()}};
  for (std::int64_t i = 0; i < range_.count(); ++i)
    read_row(rows_[static_cast<std::size_t>(i)], i, batch);
  return batch;
}

void EpisodeSource::read_row(Row& row, std::int64_t index, Batch& batch) const {
  const auto tokens = batch.field("tokens").slice(index, index + 1).span<std::int64_t>();
  const auto targets = batch.field("targets").slice(index, index + 1).span<std::int64_t>();
  std::ranges::fill(tokens, std::int64_t{0});
  std::ranges::fill(targets, ignored_target);
  const std::int64_t first = row.segment * layout_.segment;
  batch.field("earlier").span<std::int64_t>()[static_cast<std::size_t>(index)] = first;
  const std::int64_t count = std::min(layout_.segment, environment_.steps - first);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto step = static_cast<std::size_t>(first + i);
    const auto at = static_cast<std::size_t>(i);
    tokens[at] = static_cast<unsigned char>(row.steps.observations[step]);
    if (row.steps.actions[step] == no_action) continue;
    targets[at] = row.steps.actions[step];
    ++batch.counts["tokens"];
  }
  if (++row.segment < layout_.segments_of(environment_)) return;
  row.segment = 0;
  ++row.episode;
  begin(row, index);
}

Tensor EpisodeSource::cursors() const {
  const Tensor state =
      Tensor::empty({range_.count(), 2}, DType::i64, device_, MemoryTag::workspace);
  auto* to = state.data<std::int64_t>();
  for (const Row& row : rows_) {
    *to++ = row.episode;
    *to++ = row.segment * layout_.segment;
  }
  return state;
}

void EpisodeSource::restore(const Tensor& cursors) {
  if (cursors.dtype() != DType::i64 || cursors.shape() != Shape{range_.count(), 2})
    throw DataError("expected data positions of shape [{}, 2] and dtype i64, found shape {}",
                    range_.count(),
                    cursors.shape().to_string());
  const auto values = cursors.span<std::int64_t>();
  for (std::int64_t i = 0; i < range_.count(); ++i) {
    Row& row = rows_[static_cast<std::size_t>(i)];
    row.episode = values[static_cast<std::size_t>(2 * i)];
    const std::int64_t step = values[static_cast<std::size_t>(2 * i + 1)];
    row.segment = step / layout_.segment;
    if (row.episode < 0 || step < 0 || step >= environment_.steps || step % layout_.segment != 0)
      throw DataError(
          "stream {} resumes at step {} of episode {}, but an episode has {} steps in segments of "
          "{}; restore the data and data.seq_length of the checkpoint",
          range_.begin + i,
          step,
          row.episode,
          environment_.steps,
          layout_.segment);
    begin(row, i);
  }
}

}  // namespace longspan
