// Training data: lives in an environment, one after another in each row.
#pragma once

#include <vector>

#include "framework/core/device.h"
#include "framework/data/batch.h"
#include "framework/data/source.h"
#include "framework/environments/environment.h"

namespace longspan {

// Global: the same on every rank and every layout.
struct EpisodeLayout {
  std::int64_t streams = 1;  // data.global_batch_size: rows, each with episodes of its own
  std::int64_t segment = 1;  // steps of an episode in one batch
  // Stream s begins in the middle of its first episode, with segment s modulo their number, so that
  // not all batches but one in so many have no end of an episode.
  bool staggered = false;

  // What is left of the last is padding: an episode begins with a segment.
  std::int64_t segments_of(const Environment& environment) const {
    return (environment.steps + segment - 1) / segment;
  }
};

// Fields: `tokens` [rows, segment], the observations, and 0 behind an episode's end; `targets`
// [rows, segment], the actions, or ignored_target; `earlier` [rows] (see Batch). Counts: `tokens`,
// the actions that are asked for, and `rows`. Episode e of stream s is made with
// random.child(s).child(e), endlessly.
class EpisodeSource : public BatchSource {
 public:
  // Throws ConfigurationError when `ranks` does not divide the streams. Tensors are made on
  // `device`, a CPU.
  EpisodeSource(Environment environment,
                const EpisodeLayout& layout,
                const Random& random,
                int rank,
                int ranks,
                const Device& device);

  Batch next() override;
  // [streams of this rank, 2] i64: the episode, and the next of its steps.
  Tensor cursors() const override;
  CursorRows cursor_rows() const override { return {range_.begin, layout_.streams}; }
  void restore(const Tensor& cursors) override;

 private:
  struct Row {
    std::int64_t episode = 0;
    std::int64_t segment = 0;
    Episode steps = {};  // of the episode, where it is begun
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
