// Precision, recall and F1 of tagged spans, such as named entities and chunks.
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

// Position of the prefix in a tag: "B-PER" or "PER-B". `bilou` uses L and U, for the end of a span
// and a single-word span, in place of E and S.
enum class SpanScheme : std::uint8_t { prefix, suffix, bilou };

// Returns the scheme of a tag set: prefixes B, I, E, S, L and U with a hyphen and a type, together
// with "O". Bare prefixes ("B", "I", "O") mark spans of type "_". A set without "O" must have no
// other tag. Returns nothing where tags mark no spans, or mix L or U with E or S.
std::optional<SpanScheme> span_scheme_of(const std::vector<std::string>& tags);

// Returns a remark on such tags: why there is no span F1, or which tags mark no span. Empty where
// there is none.
std::string span_remark(const std::vector<std::string>& tags);

// Tags that mark spans: IOB1, IOB2, IOE1, IOE2, BIOES and BILOU.
class SpanTags {
 public:
  // `tags`: indexed by id.
  SpanTags(const std::vector<std::string>& tags, SpanScheme scheme);

  // In order of first occurrence among the tags.
  const std::vector<std::string>& types() const { return types_; }

  // Returns the spans of a sentence in order, as seqeval finds them. BILOU uses its strict mode: U,
  // or B, any number of I, and L of one type. Other schemes follow conlleval (Tjong Kim Sang and
  // Buchholz 2000). A span begins at every B and S, at a change of type, and at an I or E after an
  // O, E or S. It ends before the next begin and before O, and after every E and S. So a stray tag
  // such as "X" opens a span where its type differs from the previous tag's. A negative id is O.
  // Throws Failure for an unknown id.
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

// Counts over sentences, by type. A span is correct when its type and both ends match.
class SpanScores {
 public:
  explicit SpanScores(std::size_t types) : types_(types) {}

  void add(std::span<const TagSpan> predicted, std::span<const TagSpan> reference);
  // Adds a sentence's ids; items with a negative label, such as later pieces of a word, are dropped
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

// Returns "span_precision", "span_recall", "span_f1" over all spans, then "precision/TYPE",
// "recall/TYPE" and "f1/TYPE".
std::vector<MetricValue> metric_values(const SpanScores& scores,
                                       const std::vector<std::string>& types);

}  // namespace longspan
