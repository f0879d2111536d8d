// Precision, recall and F1 of spans that tags mark: names, phrases.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/metrics/metric_value.h"
#include "framework/metrics/retrieval.h"

namespace longspan {

struct TagSpan {
  static constexpr std::size_t no_type = static_cast<std::size_t>(-1);

  std::size_t type = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;  // one after the last item

  friend bool operator==(const TagSpan&, const TagSpan&) = default;
};

// Where the prefix of a span's tags is: "B-PER" or "PER-B". `bilou` tags end a span with L and mark
// one of a single word with U, in place of E and S.
enum class SpanScheme : std::uint8_t { prefix, suffix, bilou };

// The scheme of a set of tags: prefixes B, I, E, S, L and U with a dash and a type, next to "O";
// prefixes alone ("B", "I", "O") mark spans of the type "_". A set without "O" must have no other
// tag. Nothing where tags mark no spans, or mix L or U with E or S.
std::optional<SpanScheme> span_scheme_of(const std::vector<std::string>& tags);

// A remark on such tags: why there is no span F1, or which tags mark no span next to those that do.
// Empty where there is none.
std::string span_remark(const std::vector<std::string>& tags);

// Tags that mark spans: IOB1, IOB2, IOE1, IOE2, BIOES and BILOU.
class SpanTags {
 public:
  // The tags, by their ids.
  SpanTags(const std::vector<std::string>& tags, SpanScheme scheme);

  // In the order in which the tags first have them.
  const std::vector<std::string>& types() const { return types_; }

  // The spans of a sentence, in their order, as seqeval finds them. Of BILOU in its strict mode: U,
  // or B, any number of I and L of one type. Of others as conlleval (Tjong Kim Sang and Buchholz
  // 2000): a span begins at every B and S, where the type changes, and at an I or E after an O, E
  // or S; it ends before the beginning of another and before O, and after every E and S. So a stray
  // tag such as "X" opens a span where its type differs from that of the tag before it. A negative
  // id is O. Throws Failure for an id that there is not.
  std::vector<TagSpan> spans_of(std::span<const std::int64_t> ids) const;

 private:
  struct Tag {
    char place = 'O';
    std::size_t type = TagSpan::no_type;
  };
  Tag parsed(const std::string& tag);
  std::vector<TagSpan> bilou_spans(std::span<const Tag> tags) const;

  SpanScheme scheme_;
  Tag outside_ = {};  // "O"
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
std::vector<MetricValue> metric_values(const SpanScores& scores,
                                       const std::vector<std::string>& types);

}  // namespace longspan
