#include "framework/nn/position_convolution.h"

#include <algorithm>

#include "framework/nn/attention/kv_cache.h"

namespace longspan {
namespace {

// Positions of the rows of a pass, on this rank and on all ranks that share them.
struct ConvolvedPositions {
  Ranges own;
  std::vector<Ranges> of_ranks;  // empty: this rank has all rows
  Range all;
};

ConvolvedPositions positions_of(const std::optional<SequenceShards>& shares, std::int64_t rows) {
  if (!shares) return {.own = {{0, rows}}, .of_ranks = {}, .all = {0, rows}};
  ConvolvedPositions result = {.own = {}, .of_ranks = shares->query_rows(), .all = {0, 0}};
  result.own = result.of_ranks[shares->local_index()];
  // A rank without rows takes part in the exchange all the same.
  if (result.own.empty()) result.own = {{0, 0}};
  for (const Ranges& ranges : result.of_ranks) result.all.end += total_count(ranges);
  return result;
}

// Rows of one rank's positions and of those around them, with the row of each position.
class RowTable {
 public:
  RowTable(const Range& all, std::int64_t before) : first_(all.begin - before) {
    rows_.resize(static_cast<std::size_t>(all.count() + before), -1);
  }
  void set(std::int64_t position, std::int64_t row) {
    rows_[static_cast<std::size_t>(position - first_)] = row;
  }
  // -1: no row.
  std::int64_t at(std::int64_t position) const {
    const std::int64_t i = position - first_;
    return i >= 0 && i < std::ssize(rows_) ? rows_[static_cast<std::size_t>(i)] : -1;
  }

 private:
  std::int64_t first_;
  std::vector<std::int64_t> rows_;
};

std::vector<std::int64_t> repeat_for_rows(const std::vector<std::int64_t>& indices,
                                          std::int64_t batch) {
  std::vector<std::int64_t> result;
  for (std::int64_t row = 0; row < batch; ++row)
    result.insert(result.end(), indices.begin(), indices.end());
  return result;
}

// Rows near the borders of the ranks' ranges, equal on all context ranks.
struct BorderRows {
  Variable rows;                        // [batch, positions, channels], in time order
  std::vector<std::int64_t> positions;  // ascending
};

// Returns the rows that a rank reads `before` its ranges or `later` than them, and the last
// `retained` rows.
BorderRows gather_borders(const Variable& x,
                          const ConvolvedPositions& positions,
                          std::int64_t before,
                          std::int64_t later,
                          std::int64_t retained,
                          const Communicator& context) {
  const Range& all = positions.all;
  std::vector<bool> is_read(static_cast<std::size_t>(all.count()));
  const auto mark = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = std::max(begin, all.begin); i < std::min(end, all.end); ++i)
      is_read[static_cast<std::size_t>(i - all.begin)] = true;
  };
  for (const Ranges& ranges : positions.of_ranks)
    for (const Range& range : ranges) {
      mark(range.begin - before, range.begin);
      mark(range.end, range.end + later);
    }
  mark(all.end - retained, all.end);
  std::vector<std::int64_t> counts, gathered, sent;
  for (const Ranges& ranges : positions.of_ranks) {
    const std::size_t first = gathered.size();
    const bool is_own = std::ssize(counts) == context.rank();
    for (std::int64_t row = 0; const Range& range : ranges)
      for (std::int64_t i = range.begin; i < range.end; ++i, ++row) {
        if (!is_read[static_cast<std::size_t>(i - all.begin)]) continue;
        gathered.push_back(i);
        if (is_own) sent.push_back(row);
      }
    counts.push_back(static_cast<std::int64_t>(gathered.size() - first));
  }
  const std::int64_t batch = x.shape()[0];
  const Variable rows = gather_from_sequence_parallel_region(
      rows_at(x, repeat_for_rows(sent, batch)), counts, context);
  BorderRows result = {.rows = {}, .positions = gathered};
  std::ranges::sort(result.positions);
  std::vector<std::int64_t> order;
  for (const std::int64_t position : result.positions)
    order.push_back(std::ranges::find(gathered, position) - gathered.begin());
  result.rows = rows_at(rows, repeat_for_rows(order, batch));
  return result;
}

// Returns the rows of [batch, time] i64 of each range; undefined tensors if x is.
std::vector<Tensor> columns_of_ranges(const Tensor& x, const Ranges& ranges) {
  std::vector<Tensor> result(ranges.size());
  if (!x.defined()) return result;
  if (ranges.size() == 1) return {x};
  const Shape& shape = x.shape();
  result = pieces_of(x.reshape({shape[0], shape[1], 1, 1}), ranges);
  for (Tensor& piece : result) piece = piece.reshape({shape[0], piece.shape()[1]});
  return result;
}

// Number of positions of each batch row that are not padding; empty: all.
std::vector<std::int64_t> real_lengths(const Tensor& length) {
  if (!length.defined() || length.device().state().is_meta()) return {};
  const Tensor here = length.to_host();
  const auto values = here.span<std::int64_t>();
  return {values.begin(), values.end()};
}

}  // namespace

std::optional<SequenceShards> position_shards(const ForwardContext& pass, const ProcessMesh& mesh) {
  if (mesh.context.size() == 1 || pass.time.repeated || pass.time.total == 0) return std::nullopt;
  const std::optional<ChunkedSequence> chunks =
      pass.kv_cache ? pass.kv_cache->sequence() : std::nullopt;
  return chunks ? cross_attention_shards(mesh, *chunks, pass.kv_cache->chunk(), 0)
                : cross_attention_shards(mesh, pass.time.total, 0);
}

Variable convolve_positions(const Variable& x,
                            const Variable& weight,
                            const PositionConvolution& options,
                            const std::optional<SequenceShards>& shares) {
  const std::int64_t batch = x.shape()[0], taps = weight.shape()[1];
  const bool centered = options.padding == ConvolutionPadding::same;
  const std::int64_t later = later_taps(options.padding, taps);
  const std::int64_t before = taps - 1 - later;
  const ChunkBoundaries& state = options.state;
  const ConvolvedPositions positions = positions_of(shares, x.shape()[1]);
  const bool is_shared = !positions.of_ranks.empty() && taps > 1;
  const Tensor& documents = options.document_position;
  if (!centered && !is_shared)
    return short_convolution(x, weight, options.bias, documents, options.silu, state);
  require(!centered || !documents.defined(),
          "centered convolutions do not support packed documents");

  RowTable table(positions.all, before);
  Variable rows = x;
  std::int64_t own_begin = 0;
  if (is_shared) {
    const std::int64_t retained = state.after ? before : 0;
    BorderRows borders = gather_borders(x, positions, before, later, retained, shares->ranks);
    const bool has_state = state.before || state.after;
    if (has_state) borders.rows = with_rows_before(borders.rows, before, state);
    for (std::int64_t i = 0; has_state && i < before; ++i)
      table.set(positions.all.begin - before + i, i);
    const std::int64_t first = has_state ? before : 0;
    for (std::int64_t i = 0; i < std::ssize(borders.positions); ++i)
      table.set(borders.positions[static_cast<std::size_t>(i)], first + i);
    own_begin = borders.rows.shape()[1];
    rows = concat_time(borders.rows, x);
  }
  for (std::int64_t row = own_begin; const Range& range : positions.own)
    for (std::int64_t i = range.begin; i < range.end; ++i) table.set(i, row++);

  const std::vector<std::int64_t> lengths =
      centered ? real_lengths(options.length) : std::vector<std::int64_t>();
  const std::vector<Tensor> bounds = columns_of_ranges(documents, positions.own);
  Variable y;
  for (std::size_t i = 0; i < positions.own.size(); ++i) {
    const Range& range = positions.own[i];
    std::vector<std::int64_t> indices;
    for (std::int64_t row = 0; row < batch; ++row) {
      const std::int64_t end =
          lengths.empty() ? positions.all.end : lengths[static_cast<std::size_t>(row)];
      for (std::int64_t at = range.begin - before; at < range.end + later; ++at)
        indices.push_back(at < end ? table.at(at) : -1);
    }
    const Variable piece = depthwise_convolution(
        rows_at(rows, indices),
        weight,
        options.bias,
        {.later = later, .document_position = bounds[i], .silu = options.silu});
    y = y.defined() ? concat_time(y, piece) : piece;
  }
  return y;
}

}  // namespace longspan
