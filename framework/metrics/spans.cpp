#include "framework/metrics/spans.h"

#include <algorithm>
#include <optional>

#include "framework/core/error.h"

namespace longspan {

SpanTags::SpanTags(const std::vector<std::string>& tags) {
  for (const std::string& tag : tags) {
    const bool known = !tag.empty() && std::string_view("OBIES").find(tag[0]) != std::string::npos;
    const bool bare = tag.size() == 1, typed = tag.size() > 2 && tag[1] == '-' && tag[0] != 'O';
    if (!known || (!bare && !typed))
      throw DataError(
          "the tag \"{}\" marks no span: wanted \"O\", or B, I, E or S with a dash and a type",
          tag);
    if (tag[0] == 'O') {
      tags_.push_back({});
      continue;
    }
    const std::string type = bare ? "" : tag.substr(2);
    const auto at = std::ranges::find(types_, type);
    tags_.push_back({tag[0], static_cast<std::size_t>(at - types_.begin())});
    if (at == types_.end()) types_.push_back(type);
  }
}

std::vector<TagSpan> SpanTags::spans_of(std::span<const std::int64_t> ids) const {
  std::vector<TagSpan> spans;
  std::optional<TagSpan> open;
  const auto close = [&](std::int64_t end) {
    if (!open) return;
    open->end = end;
    spans.push_back(*open);
    open.reset();
  };
  for (std::int64_t i = 0; i < std::ssize(ids); ++i) {
    const std::int64_t id = ids[static_cast<std::size_t>(i)];
    require(id < std::ssize(tags_), "spans: tag {} of {}", id, tags_.size());
    const Tag tag = id < 0 ? Tag() : tags_[static_cast<std::size_t>(id)];
    const bool goes_on = open && open->type == tag.type && (tag.place == 'I' || tag.place == 'E');
    if (!goes_on) close(i);
    if (tag.place == 'O') continue;
    if (!goes_on) open = TagSpan{.type = tag.type, .begin = i};
    if (tag.place == 'E' || tag.place == 'S') close(i + 1);
  }
  close(std::ssize(ids));
  return spans;
}

void SpanScores::add(std::span<const TagSpan> predicted, std::span<const TagSpan> reference) {
  for (const TagSpan& span : predicted) ++types_.at(span.type).predicted;
  std::size_t next = 0;  // both are in the order of their beginnings
  for (const TagSpan& span : reference) {
    ++types_.at(span.type).reference;
    while (next < predicted.size() && predicted[next].begin < span.begin) ++next;
    if (next < predicted.size() && predicted[next] == span) ++types_[span.type].right;
  }
}

void SpanScores::add(const SpanTags& tags,
                     std::span<const std::int64_t> predicted,
                     std::span<const std::int64_t> labels) {
  require(predicted.size() == labels.size(),
          "spans: {} predictions for {} labels",
          predicted.size(),
          labels.size());
  std::vector<std::int64_t> found, right;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0) continue;
    found.push_back(predicted[i]);
    right.push_back(labels[i]);
  }
  add(tags.spans_of(found), tags.spans_of(right));
}

std::vector<Figure> figures(const SpanScores& scores, const std::vector<std::string>& types) {
  require(types.size() == scores.types().size(),
          "spans: {} names for {} types",
          types.size(),
          scores.types().size());
  const RetrievalCounts total = scores.total();
  std::vector<Figure> result = {{"span_precision", total.precision(), "percent"},
                                {"span_recall", total.recall(), "percent"},
                                {"span_f1", total.f1(), "percent"}};
  append_figures(scores.types(), types, result);
  return result;
}

}  // namespace longspan
