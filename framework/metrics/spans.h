// Precision, recall and F1 of spans that tags mark: names, phrases.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/metrics/figure.h"
#include "framework/metrics/retrieval.h"

namespace longspan {

struct TagSpan {
  std::size_t type = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;  // one after the last item

  friend bool operator==(const TagSpan&, const TagSpan&) = default;
};

// Tags that mark spans: "O" outside, "B-TYPE" at the beginning, "I-TYPE" inside, "E-TYPE" at the
// end, "S-TYPE" alone. So BIO and BIOES; a type may be left out ("B").
class SpanTags {
 public:
  // The tags, by their ids. Throws DataError for a tag of another form.
  explicit SpanTags(const std::vector<std::string>& tags);

  // In the order in which the tags first have them.
  const std::vector<std::string>& types() const { return types_; }

  // The spans of a sentence, in their order. As conlleval has it (Tjong Kim Sang and Buchholz
  // 2000), so that tags that fit no scheme mark spans too: one begins at every B and S, where the
  // type changes, and at an I or E after an O, E or S; it ends before what begins one or is O, and
  // after every E and S. A negative id is O. Throws Failure for an id that there is not.
  std::vector<TagSpan> spans_of(std::span<const std::int64_t> ids) const;

 private:
  struct Tag {
    char place = 'O';
    std::size_t type = 0;
  };

  std::vector<Tag> tags_;
  std::vector<std::string> types_;
};

// Counts over sentences, of each type. A span is right when its type and both ends are.
class SpanScores {
 public:
  explicit SpanScores(std::size_t types) : types_(types) {}

  void add(std::span<const TagSpan> predicted, std::span<const TagSpan> reference);
  // Of a sentence's ids; items with a negative label, as later pieces of a word, are left out
  // first. Throws Failure for sequences of unequal length.
  void add(const SpanTags& tags,
           std::span<const std::int64_t> predicted,
           std::span<const std::int64_t> labels);

  const std::vector<RetrievalCounts>& types() const { return types_; }
  RetrievalCounts total() const { return total_of(types_); }

  template <typename Self, typename F>
  static void each_sum(Self& self, const F& f) {
    each_retrieval_sum(self.types_, f);
  }

 private:
  std::vector<RetrievalCounts> types_;
};

// "span_precision", "span_recall", "span_f1" over all spans, then "precision/TYPE", "recall/TYPE"
// and "f1/TYPE".
std::vector<Figure> figures(const SpanScores& scores, const std::vector<std::string>& types);

}  // namespace longspan
