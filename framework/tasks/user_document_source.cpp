#include "framework/tasks/user_document_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

#include "checkpoints/checkpoint.h"
#include "framework/core/format.h"
#include "framework/core/random.h"

namespace longspan {
namespace {

// One row per stream, and the cursor of the next document in the last row: epoch, document, tokens
// read. The document is -1 for a stream that has read nothing.
constexpr const char* table_name = "data/documents";
constexpr std::int64_t table_columns = 3;
constexpr std::int64_t no_document = -1;

class SuppliedSource : public BatchSource {
 public:
  explicit SuppliedSource(SuppliedReading reading)
      : reading_(std::move(reading)),
        range_(streams_of_rank(reading_.layout.streams,
                               reading_.mesh.data_coordinate(),
                               reading_.mesh.data.size(),
                               "data.global_batch_size")),
        rows_(static_cast<std::size_t>(reading_.layout.streams)) {}

  Batch next() override;

  Tensor cursors() const override;
  CursorRows cursor_rows() const override { return {range_.begin, reading_.layout.streams}; }
  // `load_state` restores the documents of each stream.
  void restore(const Tensor& cursors) override;
  void save_state(TrainingState& state) const override;
  void load_state(const Checkpoint& checkpoint) override;

 private:
  struct Row {
    DocumentCursor place = {0, no_document};  // of the current document
    std::int64_t length = 0;                  // of the current document
    std::int64_t left = 0;                    // tokens not read yet
    std::vector<std::int64_t> ids = {};  // tokens from `read` on, if the stream is on this rank
    std::size_t read = 0;

    // Not negative once a batch is complete: a document is only taken when fewer than segment + 1
    // tokens are left.
    std::int64_t offset() const { return length - left; }
  };

  bool is_mine(std::int64_t stream) const { return stream >= range_.begin && stream < range_.end; }
  std::vector<std::int64_t> take();
  void check_document(const std::vector<std::int64_t>& document, const DocumentCursor& place) const;
  void fill(std::int64_t stream);
  void fill_all();
  // Returns the positions of the streams, without their ids.
  std::vector<Row> positions() const;
  void check_ranks_agree() const;
  static void append(Row& row, const std::vector<std::int64_t>& ids, std::int64_t begin);
  void replay();

  SuppliedReading reading_;
  StreamRange range_;
  std::vector<Row> rows_;  // of all streams
  DocumentCursor next_;    // of the next document
  DocumentStream reader_;
  bool has_tokens_ = false;  // whether the epoch had tokens so far
  bool is_fresh_ = true;
  std::optional<EndOfDocuments> end_;
  // Positions before the last batch: of the streams and of the next document.
  struct Before {
    std::vector<Row> rows;
    DocumentCursor next;
  };
  std::optional<Before> before_;
  Random taken_ = Random(0).child("documents");  // hash of all ids taken, in order
};

void SuppliedSource::check_document(const std::vector<std::int64_t>& document,
                                    const DocumentCursor& place) const {
  const auto wrong = std::ranges::find_if(
      document, [&](std::int64_t id) { return id < 0 || id >= reading_.vocabulary; });
  if (wrong == document.end()) return;
  throw DataError(
      "the program's data: document {} of epoch {}: token {}: expected 0 to {}, found {}",
      place.document,
      place.epoch,
      wrong - document.begin(),
      reading_.vocabulary - 1,
      *wrong);
}

// Returns the next non-empty document.
std::vector<std::int64_t> SuppliedSource::take() {
  while (true) {
    if (!reader_) {
      reader_ = reading_.open(next_);
      if (!reader_)
        throw EndOfDocuments(
            "the program's data ended before the last step and can be read only once; pass a list "
            "or a function of a position, or reduce training.max_steps");
      has_tokens_ = next_.document > 0;
    }
    std::optional<std::vector<std::int64_t>> document = reader_();
    if (!document) {
      if (!has_tokens_) throw DataError("the program's data: epoch {} has no tokens", next_.epoch);
      next_ = {next_.epoch + 1, 0};
      reader_ = {};
      continue;
    }
    check_document(*document, next_);
    taken_ = taken_.child(static_cast<std::uint64_t>(next_.document));
    for (const std::int64_t id : *document) taken_ = taken_.child(static_cast<std::uint64_t>(id));
    ++next_.document;
    if (document->empty()) continue;
    has_tokens_ = true;
    return *std::move(document);
  }
}

void SuppliedSource::append(Row& row, const std::vector<std::int64_t>& ids, std::int64_t begin) {
  row.ids.erase(row.ids.begin(), row.ids.begin() + static_cast<std::ptrdiff_t>(row.read));
  row.read = 0;
  row.ids.insert(row.ids.end(), ids.begin() + begin, ids.end());
}

void SuppliedSource::fill(std::int64_t stream) {
  Row& row = rows_[static_cast<std::size_t>(stream)];
  while (row.left < reading_.layout.segment + 1) {
    const std::vector<std::int64_t> document = take();
    row.place = {next_.epoch, next_.document - 1};
    row.length = std::ssize(document);
    row.left += row.length;
    if (is_mine(stream)) append(row, document, 0);
  }
}

std::vector<SuppliedSource::Row> SuppliedSource::positions() const {
  std::vector<Row> result;
  for (const Row& row : rows_)
    result.push_back({.place = row.place, .length = row.length, .left = row.left});
  return result;
}

// If there are too few documents, restores the cursors of all streams, so that they can be saved.
void SuppliedSource::fill_all() {
  const DocumentCursor next = next_;
  std::vector<Row> before = positions();
  try {
    for (std::int64_t stream = 0; stream < reading_.layout.streams; ++stream) fill(stream);
  } catch (const EndOfDocuments& error) {
    next_ = next;
    rows_ = std::move(before);
    taken_ = taken_.child("end");
    end_ = error;
  }
}

// Ranks with different documents would train on different data, or deadlock where the numbers of
// steps differ.
void SuppliedSource::check_ranks_agree() const {
  // its negation must not overflow
  const auto hash = static_cast<std::int64_t>(taken_.place() >> 1);
  const Tensor bounds = Tensor::from<std::int64_t>(
      std::vector<std::int64_t>{hash, -hash}, {2}, Device::cpu(), MemoryTag::workspace);
  reading_.mesh.world.all_reduce(bounds, Reduction::maximum);
  const auto found = bounds.span<std::int64_t>();
  if (found[0] == -found[1]) return;
  throw DataError(
      "the program's data: ranks received different documents up to document {} of "
      "epoch {}; pass the same documents on every rank",
      std::max<std::int64_t>(next_.document - 1, 0),
      next_.epoch);
}

Batch SuppliedSource::next() {
  const std::int64_t segment = reading_.layout.segment;
  Batch batch;
  batch.place = fmt::format("at document {} of epoch {}", next_.document, next_.epoch);
  before_ = {positions(), next_};
  if (!end_) {
    fill_all();
    check_ranks_agree();
  }
  if (end_) throw *end_;
  const Shape shape{range_.count(), segment};
  for (const char* name : {"tokens", "targets"})
    batch.fields[name] = Tensor::empty(shape, DType::i64, reading_.host, MemoryTag::workspace);
  batch.first_row = range_.begin;
  batch.resets_state = std::exchange(is_fresh_, false);
  batch.counts = {{"tokens", shape.elements()}};
  const auto tokens = batch.field("tokens").span<std::int64_t>();
  const auto targets = batch.field("targets").span<std::int64_t>();
  for (std::int64_t stream = 0; stream < reading_.layout.streams; ++stream) {
    Row& row = rows_[static_cast<std::size_t>(stream)];
    row.left -= segment;
    if (!is_mine(stream)) continue;
    const auto first = row.ids.begin() + static_cast<std::ptrdiff_t>(row.read);
    const std::int64_t to = (stream - range_.begin) * segment;
    std::copy_n(first, segment, tokens.begin() + to);
    std::copy_n(first + 1, segment, targets.begin() + to);
    row.read += static_cast<std::size_t>(segment);
  }
  return batch;
}

Tensor SuppliedSource::cursors() const {
  const Tensor table = Tensor::empty(
      {range_.count(), table_columns}, DType::i64, reading_.host, MemoryTag::workspace);
  const auto values = table.span<std::int64_t>();
  for (std::int64_t i = 0; i < range_.count(); ++i) {
    const Row& row = rows_[static_cast<std::size_t>(range_.begin + i)];
    const std::array<std::int64_t, table_columns> cursor = {
        row.place.epoch, row.place.document, row.offset()};
    std::ranges::copy(cursor, values.begin() + i * table_columns);
  }
  return table;
}

void SuppliedSource::restore(const Tensor& cursors) {
  const Shape wanted = {range_.count(), table_columns};
  if (cursors.dtype() != DType::i64 || cursors.shape() != wanted)
    throw DataError(
        "expected data positions of shape {} for {} of the program's "
        "documents, found {}; check that the checkpoint was not trained on files",
        wanted.to_string(),
        pluralize(range_.count(), "stream"),
        cursors.shape().to_string());
  // A discarded step: the positions before its batch are saved, but nothing is read from there.
  if (!before_) return;
  rows_ = std::move(before_->rows);
  next_ = before_->next;
  before_.reset();
}

void SuppliedSource::save_state(TrainingState& state) const {
  const std::int64_t streams = reading_.layout.streams;
  const Tensor table =
      Tensor::empty({streams + 1, table_columns}, DType::i64, reading_.host, MemoryTag::workspace);
  const auto values = table.span<std::int64_t>();
  for (std::int64_t stream = 0; stream <= streams; ++stream) {
    const bool is_row = stream < streams;
    const Row row = is_row ? rows_[static_cast<std::size_t>(stream)] : Row{.place = next_};
    const std::array<std::int64_t, table_columns> line = {
        row.place.epoch, row.place.document, row.offset()};
    std::ranges::copy(line, values.begin() + stream * table_columns);
  }
  state.add(table_name, table, reading_.mesh.world.rank() == 0);
}

void SuppliedSource::load_state(const Checkpoint& checkpoint) {
  const std::int64_t streams = reading_.layout.streams;
  const Shape wanted = {streams + 1, table_columns};
  if (!checkpoint.has(table_name) || checkpoint.shape_of(table_name) != wanted)
    throw DataError(
        "{}: has no table \"{}\" of {}; check that the checkpoint was not trained on files",
        checkpoint.path().string(),
        table_name,
        pluralize(streams, "stream"));
  const Tensor table = Tensor::empty(wanted, DType::i64, reading_.host, MemoryTag::workspace);
  checkpoint.read({.name = table_name, .tensor = table, .global_shape = wanted, .offset = {0, 0}});
  const auto values = table.span<std::int64_t>();
  rows_.assign(static_cast<std::size_t>(streams), {});
  for (std::int64_t stream = 0; stream <= streams; ++stream) {
    const auto line = values.subspan(static_cast<std::size_t>(stream * table_columns));
    const DocumentCursor place = {line[0], line[1]};
    const bool is_row = stream < streams;
    const bool is_place = place.epoch >= 0 && line[2] >= 0 && (place.document >= 0 || is_row);
    if (!is_place || place.document < no_document)
      throw DataError("{}: \"{}\": invalid position: document {} of epoch {} at token {}",
                      checkpoint.path().string(),
                      table_name,
                      place.document,
                      place.epoch,
                      line[2]);
    if (!is_row)
      next_ = place;
    else
      rows_[static_cast<std::size_t>(stream)] = {.place = place, .left = -line[2]};
  }
  replay();
}

// Reads the documents again from the first one that a stream has not finished.
void SuppliedSource::replay() {
  const DocumentCursor end = next_;
  DocumentCursor begin = end;
  std::map<DocumentCursor, std::int64_t> stream_of;
  for (std::int64_t stream = 0; stream < std::ssize(rows_); ++stream) {
    const DocumentCursor& place = rows_[static_cast<std::size_t>(stream)].place;
    if (place.document == no_document) continue;
    begin = std::min(begin, place);
    if (!stream_of.emplace(place, stream).second)
      throw DataError("the program's data: two streams read document {} of epoch {}",
                      place.document,
                      place.epoch);
  }
  end_.reset();
  is_fresh_ = stream_of.empty();
  reader_ = {};
  next_ = begin;
  while (!stream_of.empty()) {
    const std::vector<std::int64_t> document = take();
    const DocumentCursor place = {next_.epoch, next_.document - 1};
    const auto first = stream_of.begin();
    if (place < first->first) continue;
    Row& row = rows_[static_cast<std::size_t>(first->second)];
    const std::int64_t offset = -row.left;
    if (place != first->first || offset >= std::ssize(document))
      throw DataError(
          "the program's data: a stream resumes at token {} of document {} of epoch {}, which does "
          "not exist; pass the documents that the checkpoint was trained on",
          offset,
          first->first.document,
          first->first.epoch);
    row.length = std::ssize(document);
    row.left = row.length - offset;
    if (is_mine(first->second)) append(row, document, offset);
    stream_of.erase(first);
  }
  if (next_ != end)
    throw DataError("the program's data: expected document {} of epoch {} next, found {} of {}",
                    end.document,
                    end.epoch,
                    next_.document,
                    next_.epoch);
}

}  // namespace

std::unique_ptr<BatchSource> user_document_source(SuppliedReading reading) {
  return std::make_unique<SuppliedSource>(std::move(reading));
}

}  // namespace longspan
