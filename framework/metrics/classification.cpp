#include "framework/metrics/classification.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/error.h"
#include "framework/core/quote.h"

namespace longspan {
namespace {

// Type of "O", unless a bare "B" shares it.
constexpr std::size_t outside = TagSpan::no_type;
constexpr std::string_view bare_type = "_";

bool is_place(char letter) { return std::string_view("BIESLU").find(letter) != std::string::npos; }
bool has_prefix(const std::string& tag) {
  return tag.size() > 2 && tag[1] == '-' && is_place(tag[0]);
}
bool has_suffix(const std::string& tag) {
  return tag.size() > 2 && tag[tag.size() - 2] == '-' && is_place(tag.back());
}
bool is_bare(const std::string& tag) { return tag.size() == 1 && is_place(tag[0]); }
bool is_outside(const std::string& tag) { return tag == "O"; }

// Returns the prefix or suffix letters of a scheme's tags.
std::string positions_of(const std::vector<std::string>& tags, SpanScheme scheme) {
  std::string places;
  for (const std::string& tag : tags)
    if (scheme == SpanScheme::suffix ? has_suffix(tag) : has_prefix(tag) || is_bare(tag))
      places += scheme == SpanScheme::suffix ? tag.back() : tag[0];
  return places;
}

// Detects prefixes or suffixes, for any letters.
std::optional<SpanScheme> affix_of(const std::vector<std::string>& tags) {
  const bool has_outside = std::ranges::any_of(tags, is_outside);
  const auto all = [&](const auto& fits) {
    return std::ranges::all_of(
        tags, [&](const std::string& tag) { return is_outside(tag) || fits(tag); });
  };
  if (std::ranges::any_of(tags, has_prefix) && (has_outside || all(has_prefix)))
    return SpanScheme::prefix;
  if (std::ranges::any_of(tags, has_suffix) && all(has_suffix)) return SpanScheme::suffix;
  const bool begins =
      std::ranges::any_of(tags, [](const std::string& tag) { return tag == "B" || tag == "I"; });
  if (has_outside && begins && all(is_bare)) return SpanScheme::prefix;
  return std::nullopt;
}

bool starts_span(char before, char place, bool is_other_type) {
  if (place == 'O' || place == '.') return false;
  const bool goes_on = place == 'I' || place == 'E';
  if (goes_on && (before == 'E' || before == 'S')) return true;
  return place == 'B' || place == 'S' || (goes_on && before == 'O') || is_other_type;
}

bool ends_span(char before, char place, bool is_other_type) {
  if (before == 'O' || before == '.') return false;
  const bool is_inside = before == 'B' || before == 'I';
  return before == 'E' || before == 'S' || is_other_type ||
         (is_inside && (place == 'B' || place == 'S' || place == 'O'));
}

}  // namespace

void Classification::add(std::int64_t predicted, std::int64_t label) {
  const std::int64_t count = std::ssize(classes_);
  require(predicted < count && label < count,
          "classification: predicted class {} or label {} is out of range ({} classes)",
          predicted,
          label,
          count);
  if (label < 0) return;
  RetrievalCounts& right = classes_[static_cast<std::size_t>(label)];
  ++right.reference;
  right.right += predicted == label ? 1 : 0;
  if (predicted >= 0) ++classes_[static_cast<std::size_t>(predicted)].predicted;
}

void Classification::add(std::span<const std::int64_t> predicted,
                         std::span<const std::int64_t> labels) {
  require(predicted.size() == labels.size(),
          "classification: expected as many predictions as labels, found {} and {}",
          predicted.size(),
          labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) add(predicted[i], labels[i]);
}

double Classification::accuracy() const { return total_of(classes_).recall(); }

double Classification::macro_f1() const {
  double sum = 0, present = 0;
  for (const RetrievalCounts& one : classes_) {
    if (one.reference == 0 && one.predicted == 0) continue;
    sum += one.f1();
    ++present;
  }
  return present > 0 ? sum / present : 0;
}

double Classification::micro_f1() const { return total_of(classes_).f1(); }

std::vector<MetricValue> metric_values(const Classification& classification,
                                       const std::vector<std::string>& names) {
  require(names.size() == classification.classes().size(),
          "classification: expected as many names as classes, found {} and {}",
          names.size(),
          classification.classes().size());
  std::vector<MetricValue> result = {{"accuracy", classification.accuracy(), "percent"},
                                     {"macro_f1", classification.macro_f1(), "percent"},
                                     {"micro_f1", classification.micro_f1(), "percent"}};
  append_figures(classification.classes(), names, result);
  return result;
}

std::optional<SpanScheme> span_scheme_of(const std::vector<std::string>& tags) {
  const std::optional<SpanScheme> affix = affix_of(tags);
  if (!affix) return std::nullopt;
  const std::string places = positions_of(tags, *affix);
  const bool has_lu = places.find_first_of("LU") != std::string::npos;
  if (!has_lu) return affix;
  const bool has_es = places.find_first_of("ES") != std::string::npos;
  if (has_es || *affix == SpanScheme::suffix) return std::nullopt;
  return SpanScheme::bilou;
}

std::string span_remark(const std::vector<std::string>& tags) {
  const std::optional<SpanScheme> affix = affix_of(tags);
  if (!affix) return "";
  if (!span_scheme_of(tags))
    return *affix == SpanScheme::suffix
               ? "no span F1: expected L or U as a prefix of tags, as in \"U-PER\""
               : "no span F1: tags mix L or U of BILOU with E or S of BIOES";
  std::string strays;
  for (const std::string& tag : tags) {
    const bool marks = *affix == SpanScheme::suffix ? has_suffix(tag) : has_prefix(tag);
    if (marks || is_bare(tag) || is_outside(tag)) continue;
    strays += (strays.empty() ? "" : ", ") + quote(tag);
  }
  if (strays.empty()) return "";
  return fmt::format(
      "tags without a prefix such as B- or I-: {}; span F1 counts them as in seqeval",
      truncated(strays, 100));
}

SpanTags::SpanTags(const std::vector<std::string>& tags, SpanScheme scheme) : scheme_(scheme) {
  for (const std::string& tag : tags) tags_.push_back(parsed(tag));
  // "O" shares the type of a bare "B", if there is one.
  const auto bare = std::ranges::find(types_, bare_type);
  if (scheme_ == SpanScheme::bilou || bare == types_.end()) return;
  outside_.type = static_cast<std::size_t>(bare - types_.begin());
  for (Tag& tag : tags_)
    if (tag.type == outside) tag = outside_;
}

SpanTags::Tag SpanTags::parsed(const std::string& tag) {
  if (tag.empty() || is_outside(tag)) return outside_;
  const bool is_suffix = scheme_ == SpanScheme::suffix;
  const char place = is_suffix ? tag.back() : tag.front();
  // seqeval's strict mode rejects other tags.
  if (scheme_ == SpanScheme::bilou && !has_prefix(tag) && !is_bare(tag)) return outside_;
  std::string_view type = tag;
  type = is_suffix ? type.substr(0, type.size() - 1) : type.substr(1);
  if (is_suffix)
    type = type.substr(0, type.rfind('-'));
  else if (const std::size_t dash = type.find('-'); dash != std::string_view::npos)
    type.remove_prefix(dash + 1);
  if (type.empty()) type = bare_type;
  const auto at = std::ranges::find(types_, type);
  const Tag result = {place, static_cast<std::size_t>(at - types_.begin())};
  if (at == types_.end()) types_.emplace_back(type);
  return result;
}

std::vector<TagSpan> SpanTags::bilou_spans(std::span<const Tag> tags) const {
  std::vector<TagSpan> spans;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const auto begin = static_cast<std::int64_t>(i);
    const std::size_t type = tags[i].type;
    const auto next_is = [&](char place) {
      return i + 1 < tags.size() && tags[i + 1].place == place && tags[i + 1].type == type;
    };
    if (tags[i].place == 'U') spans.push_back({type, begin, begin + 1});
    if (tags[i].place != 'B') continue;
    while (next_is('I')) ++i;
    if (!next_is('L')) continue;
    ++i;
    spans.push_back({type, begin, static_cast<std::int64_t>(i) + 1});
  }
  return spans;
}

std::vector<TagSpan> SpanTags::spans_of(std::span<const std::int64_t> ids) const {
  std::vector<Tag> tags;
  tags.reserve(ids.size() + 1);
  for (const std::int64_t id : ids) {
    require(id < std::ssize(tags_), "spans: tag {} is out of range ({} tags)", id, tags_.size());
    tags.push_back(id < 0 ? outside_ : tags_[static_cast<std::size_t>(id)]);
  }
  if (scheme_ == SpanScheme::bilou) return bilou_spans(tags);
  tags.push_back(outside_);
  std::vector<TagSpan> spans;
  Tag before = outside_;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < std::ssize(tags); ++i) {
    const Tag tag = tags[static_cast<std::size_t>(i)];
    const bool is_other = tag.type != before.type;
    if (ends_span(before.place, tag.place, is_other)) spans.push_back({before.type, begin, i});
    if (starts_span(before.place, tag.place, is_other)) begin = i;
    before = tag;
  }
  return spans;
}

void SpanScores::add(std::span<const TagSpan> predicted, std::span<const TagSpan> reference) {
  for (const TagSpan& span : predicted) ++types_.at(span.type).predicted;
  std::size_t next = 0;  // both are sorted by their begins
  for (const TagSpan& span : reference) {
    ++types_.at(span.type).reference;
    const auto is_before = [](const TagSpan& a, const TagSpan& b) {
      return a.begin < b.begin || (a.begin == b.begin && a.end < b.end);
    };
    while (next < predicted.size() && is_before(predicted[next], span)) ++next;
    if (next < predicted.size() && predicted[next] == span) ++types_[span.type].right;
  }
}

void SpanScores::add(const SpanTags& tags,
                     std::span<const std::int64_t> predicted,
                     std::span<const std::int64_t> labels) {
  require(predicted.size() == labels.size(),
          "spans: expected as many predictions as labels, found {} and {}",
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

std::vector<MetricValue> metric_values(const SpanScores& scores,
                                       const std::vector<std::string>& types) {
  require(types.size() == scores.types().size(),
          "spans: expected as many names as types, found {} and {}",
          types.size(),
          scores.types().size());
  const RetrievalCounts total = scores.total();
  std::vector<MetricValue> result = {{"span_precision", total.precision(), "percent"},
                                     {"span_recall", total.recall(), "percent"},
                                     {"span_f1", total.f1(), "percent"}};
  append_figures(scores.types(), types, result);
  return result;
}

}  // namespace longspan
