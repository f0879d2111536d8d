// Training data: consecutive episodes of an environment in each row.
#pragma once

#include <vector>

#include "framework/core/device.h"
#include "framework/data/batch.h"
#include "framework/environments/environment.h"

namespace longspan {

// Division into rows, equal on every rank and every layout.
struct EpisodeLayout {
  std::int64_t streams = 1;  // data.global_batch_size: rows, each with its own episodes
  std::int64_t segment = 1;  // steps of an episode per batch
  // Stream s starts in the middle of its first episode, at segment s modulo the number of segments.
  // So episode ends spread over all batches instead of coinciding in one.
  bool staggered = false;

  // The last segment is padded, because an episode starts at a segment boundary.
  std::int64_t segments_of(const Environment& environment) const {
    return (environment.steps + segment - 1) / segment;
  }
};

// Fields: `tokens` [rows, segment], the observations, 0 after an episode's end; `targets` [rows,
// segment], the actions, or ignored_target; `earlier` [rows] (see Fields). Counts: `tokens`, the
// number of target actions, and `rows`. Episode e of stream s is generated with
// random.child(s).child(e), without end.
class EpisodeSource : public BatchSource {
 public:
  // Throws ConfigurationError when `ranks` does not divide the streams. Tensors are allocated on
  // `device`, a CPU.
  EpisodeSource(Environment environment,
                const EpisodeLayout& layout,
                const Random& random,
                int rank,
                int ranks,
                const Device& device);

  Batch next() override;
  // [streams of this rank, 2] i64: the episode and its next step.
  Tensor cursors() const override;
  CursorRows cursor_rows() const override { return {range_.begin, layout_.streams}; }
  void restore(const Tensor& cursors) override;

 private:
  struct Row {
    std::int64_t episode = 0;
    std::int64_t segment = 0;
    Episode steps = {};  // of the episode, once it has begun
  };

  void begin(Row& row, std::int64_t index) const;
  void read_row(Row& row, std::int64_t index, Batch& batch) const;

  Environment environment_;
  EpisodeLayout layout_;
  Random random_;
  StreamRange range_;
  Device device_;
  std::vector<Row> rows_;
};

}  // namespace longspan
