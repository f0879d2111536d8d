// The names of classes or tags and their ids.
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

// A value; copies share the names. Ids are 0, 1, ... in the order of the names. Those that are
// learnt from data are sorted: by value where all are whole numbers, else by their bytes.
class LabelSet {
 public:
  LabelSet() : LabelSet(std::vector<std::string>()) {}
  // In any order, repeated or not: sorts them.
  explicit LabelSet(std::vector<std::string> names);
  // In this order. Throws DataError where one is there twice; `place` begins the message.
  static LabelSet in_order(std::vector<std::string> names, std::string_view place);
  // The inverse of `to_json`. Throws DataError; `place` names the text in the message.
  static LabelSet from_json(std::string_view json, std::string_view place);

  std::int64_t size() const { return static_cast<std::int64_t>(names_->size()); }
  const std::vector<std::string>& names() const { return *names_; }
  const std::string& name(std::int64_t id) const;
  // -1 where there is none.
  std::int64_t id_of(std::string_view name) const;
  // Throws DataError where there is none; `place` begins the message, `what` is "label" or "tag".
  std::int64_t id_at(std::string_view name, std::string_view what, std::string_view place) const;

  // Deterministic and readable.
  std::string to_json() const;

  friend bool operator==(const LabelSet& a, const LabelSet& b) { return *a.names_ == *b.names_; }

 private:
  struct Ids;
  void number();

  std::shared_ptr<const std::vector<std::string>> names_;
  std::shared_ptr<const Ids> ids_;
};

// The labels of a file.
struct LearnedLabels {
  LabelSet labels;
  // Number of different texts that have them. Nothing where it is not counted.
  std::optional<std::int64_t> texts = {};

  // Whether the columns may be in the other order: a label repeats, and texts seldom do.
  bool may_be_swapped() const;

  std::string to_json() const;
  // The inverse of `to_json`. Throws DataError; `place` begins the message.
  static LearnedLabels from_json(std::string_view json, std::string_view place);
};

// Gathers the labels of a file line by line.
class LabelColumn {
 public:
  // A line's label and the text that has it. Returns whether the label is new.
  bool add(std::string_view label, std::string_view text);
  LearnedLabels labels() const;

 private:
  std::set<std::string, std::less<>> labels_;
  std::unordered_set<std::uint64_t> texts_;  // hashes
};

}  // namespace longspan
