// Accuracy, precision, recall and F1: of classes for single-label classification, and of tagged
// spans.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/metrics/metric_value.h"

namespace longspan {

// Counts of correct, predicted and reference items.
struct RetrievalCounts {
  std::int64_t right = 0;  // true positives
  std::int64_t predicted = 0;
  std::int64_t reference = 0;

  // All in percent; 0 where the denominator is 0.
  double precision() const {
    return percent(static_cast<double>(right), static_cast<double>(predicted));
  }
  double recall() const {
    return percent(static_cast<double>(right), static_cast<double>(reference));
  }
  // Equals 2 P R / (P + R).
  double f1() const {
    return percent(2 * static_cast<double>(right), static_cast<double>(predicted + reference));
  }

  RetrievalCounts& operator+=(const RetrievalCounts& other) {
    right += other.right;
    predicted += other.predicted;
    reference += other.reference;
    return *this;
  }
};

// Returns the total over classes or types.
inline RetrievalCounts total_of(const std::vector<RetrievalCounts>& kinds) {
  RetrievalCounts total;
  for (const RetrievalCounts& kind : kinds) total += kind;
  return total;
}

// Appends "precision/NAME", "recall/NAME" and "f1/NAME" of each class or type.
inline void append_figures(const std::vector<RetrievalCounts>& kinds,
                           const std::vector<std::string>& names,
                           std::vector<MetricValue>& figures) {
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    figures.push_back({"precision/" + names[i], kinds[i].precision(), "percent"});
    figures.push_back({"recall/" + names[i], kinds[i].recall(), "percent"});
    figures.push_back({"f1/" + names[i], kinds[i].f1(), "percent"});
  }
}

template <typename Kinds, typename F>
void each_retrieval_sum(Kinds& kinds, const F& f) {
  for (auto& kind : kinds) {
    f(kind.right);
    f(kind.predicted);
    f(kind.reference);
  }
}

class Classification {
 public:
  explicit Classification(std::int64_t classes) : classes_(static_cast<std::size_t>(classes)) {}

  // Adds one item or several. A negative label is ignored; a negative prediction matches no class
  // and counts as wrong. Throws Failure for an unknown class, and for sequences of unequal length.
  void add(std::int64_t predicted, std::int64_t label);
  void add(std::span<const std::int64_t> predicted, std::span<const std::int64_t> labels);

  const std::vector<RetrievalCounts>& classes() const { return classes_; }
  // In percent. Macro F1: the mean over classes that occur in labels or predictions, as
  // scikit-learn's f1_score(average="macro", zero_division=0). Micro F1: over all classes together,
  // equal to the accuracy where every item has a predicted class.
  double accuracy() const;
  double macro_f1() const;
  double micro_f1() const;

  template <typename Self, typename F>
  static void each_sum(Self& self, const F& f) {
    each_retrieval_sum(self.classes_, f);
  }

 private:
  std::vector<RetrievalCounts> classes_;
};

// Returns "accuracy", "macro_f1", "micro_f1", then "precision/NAME", "recall/NAME" and "f1/NAME" of
// each class. Throws Failure unless each class has a name.
std::vector<MetricValue> metric_values(const Classification& classification,
                                       const std::vector<std::string>& names);

// Precision, recall and F1 of tagged spans, such as named entities and chunks.

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
