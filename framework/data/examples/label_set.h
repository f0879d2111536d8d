// Names of classes or tags, and their ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace longspan {

// A value; copies share the names. Ids are 0, 1, ... in the order of the names. Names collected
// from data are sorted: numerically if all are integers, else bytewise.
class LabelSet {
 public:
  LabelSet() : LabelSet(std::vector<std::string>()) {}
  // Sorts the names, which may repeat.
  explicit LabelSet(std::vector<std::string> names);
  // Preserves the order. Throws DataError, prefixed with `place`, for a duplicate.
  static LabelSet in_order(std::vector<std::string> names, std::string_view place);
  // Inverse of `to_json`. Throws DataError, which names `place`.
  static LabelSet from_json(std::string_view json, std::string_view place);

  std::int64_t size() const { return static_cast<std::int64_t>(names_->size()); }
  const std::vector<std::string>& names() const { return *names_; }
  const std::string& name(std::int64_t id) const;
  // Returns the id, or -1 for an unknown name.
  std::int64_t id_of(std::string_view name) const;
  // Returns the id. Throws DataError, prefixed with `place`, for an unknown name. `what` is "label"
  // or "tag".
  std::int64_t id_at(std::string_view name, std::string_view what, std::string_view place) const;

  // Returns deterministic, readable JSON.
  std::string to_json() const;

  friend bool operator==(const LabelSet& a, const LabelSet& b) { return *a.names_ == *b.names_; }

 private:
  struct Ids;
  void number();

  std::shared_ptr<const std::vector<std::string>> names_;
  std::shared_ptr<const Ids> ids_;
};

// Labels collected from a file.
struct LearnedLabels {
  LabelSet labels;
  // Number of distinct texts with labels; unset if not counted.
  std::optional<std::int64_t> texts = {};

  // Returns whether the columns may be swapped: labels normally repeat, and texts rarely do.
  bool may_be_swapped() const;

  std::string to_json() const;
  // Inverse of `to_json`. Throws DataError, prefixed with `place`.
  static LearnedLabels from_json(std::string_view json, std::string_view place);
};

// Collects the labels of a file, line by line.
class LabelColumn {
 public:
  // Adds the label and the text of a line. Returns whether the label is new.
  bool add(std::string_view label, std::string_view text);
  LearnedLabels labels() const;

 private:
  std::set<std::string, std::less<>> labels_;
  std::unordered_set<std::uint64_t> texts_;  // hashes
};

}  // namespace longspan
