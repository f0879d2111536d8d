#include "framework/data/examples/parallel_examples.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/core/random.h"
#include "framework/core/range.h"
#include "framework/data/corpus/document_form.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/tokenization/document_encoder.h"
#include "framework/data/tokenization/sentencepiece_model.h"

namespace longspan {
namespace {

// Number of most likely segmentations to sample from.
constexpr int sampled_segmentations = 64;

// Subword regularization (Kudo 2018): samples a segmentation of the line into at most `most`
// subwords, with probability proportional to the power `alpha` of its likelihood. Depends only on
// `place` and the line. Returns the default segmentation where none is that short, and for
// tokenizers with only one. Throws DataError as Tokenizer::encode.
//
// SentencePiece can sample too, but from a thread-local generator that is seeded once. Its samples
// would depend on earlier reads of that thread.
std::vector<std::int64_t> sample_subwords(const Tokenizer& tokenizer,
                                          std::string_view line,
                                          double alpha,
                                          std::size_t most,
                                          const Random& place,
                                          std::string_view where) {
  std::vector<std::int64_t> usual = tokenizer.encode(line, where);
  const SentencePieceModel* const model = tokenizer.subword_model();
  if (model == nullptr || line.size() > max_line_piece_length) return usual;
  auto found = model->segmentations(line, sampled_segmentations);
  std::erase_if(found, [most](const auto& one) { return one.ids.size() > most; });
  if (found.empty()) return usual;
  // Differences to the maximum log probability avoid underflow.
  std::vector<double> cumulative;
  double sum = 0;
  for (const auto& one : found)
    cumulative.push_back(sum +=
                         std::exp(alpha * (one.log_probability - found.front().log_probability)));
  const double drawn = static_cast<double>(place.word(0)) * 0x1p-32 * sum;
  const auto chosen =
      std::upper_bound(cumulative.begin(), cumulative.end() - 1, drawn) - cumulative.begin();
  return std::move(found[static_cast<std::size_t>(chosen)].ids);
}

// Removes and returns the number at the beginning of the text; -1 if there is none.
std::int64_t take_number(std::string_view& text) {
  std::int64_t number = -1;
  if (text.empty() || text.front() == '-') return number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

ExampleIndex scanned(const InputFile& file,
                     std::int64_t pairs,
                     const std::function<Lengths(std::int64_t)>& lengths,
                     const ProgressCallback& heard) {
  ExampleIndex index;
  for_each_line_block(file, heard, [&](std::span<const Line> lines) {
    for (const Line& line : lines) {
      const std::string place = line_location(file.path(), line.number);
      if (line.number > pairs)
        throw DataError(
            "{}: expected at most {} lines of links, one per pair of lines", place, pairs);
      index.add(line.offset,
                std::ssize(parse_alignment(line.text, lengths(line.number - 1), place)),
                place);
    }
  });
  index.finish(file.size());
  if (index.size() < pairs)
    throw DataError("{}: expected {} lines of links, one per pair of lines, found {}",
                    file.path(),
                    pairs,
                    index.size());
  return index;
}

// Lines of one file, each with special tokens.
class Side {
 public:
  Side(const ConfigPath& path,
       const Tokenizer& tokenizer,
       const SpecialTokenTemplate& frame,
       const Communicator& all,
       const ProgressCallback& listener)
      : file_(open_shared(path, all)),
        tokenizer_(tokenizer),
        frame_(frame),
        index_(ExampleIndex::from_bytes(
            scan_shared(file_, all, listener, [tokenizer](const auto& file, const auto& heard) {
              return count_tokens(file, tokenizer, heard).bytes();
            }))) {}

  const InputFile& file() const { return *file_; }
  std::int64_t lines() const { return index_.size(); }
  // Token counts without and with special tokens.
  std::int64_t text_tokens(std::int64_t line) const { return index_.tokens(line); }
  std::int64_t tokens(std::int64_t line) const { return text_tokens(line) + frame_.tokens(); }
  // Returns the range of the text tokens in a row of this many tokens.
  Range text_of(std::int64_t tokens) const {
    return {std::ssize(frame_.before()), tokens - std::ssize(frame_.after())};
  }
  std::string place(std::int64_t line) const { return line_location(file_->path(), line + 1); }

  struct Row {
    std::vector<std::int64_t> ids;
    std::int64_t bytes = 0;  // of the text of these tokens
  };

  // Reads at most `request.longest` tokens, and no more than `most`.
  Row read(std::int64_t line,
           std::int64_t most,
           const BatchRequest& request,
           const Random& random) const {
    const std::string bytes = read_bytes(*file_, index_.begin(line), index_.end(line));
    const std::string_view text = without_line_end(bytes);
    const std::int64_t kept = request.longest > 0 ? std::min(most, request.longest) : most;
    const std::int64_t room = frame_.room(kept, place(line));
    std::vector<std::int64_t> ids = request.subword_sampling > 0
                                        ? sample_subwords(tokenizer_,
                                                          text,
                                                          request.subword_sampling,
                                                          static_cast<std::size_t>(room),
                                                          random,
                                                          place(line))
                                        : tokenizer_.encode(text, place(line));
    const bool is_empty = ids.empty();
    const std::int64_t bytes_read = std::ssize(ids) > room
                                        ? bytes_of_tokens(tokenizer_, text, room, place(line))
                                        : std::ssize(text);
    ids = add_special_tokens(frame_, std::move(ids), place(line), request.longest > 0 ? kept : 0);
    if (is_empty || std::ssize(ids) > most)
      throw DataError("{}: changed while reading", place(line));
    return {std::move(ids), bytes_read};
  }

 private:
  static ExampleIndex count_tokens(const InputFile& file,
                                   const Tokenizer& tokenizer,
                                   const ProgressCallback& heard) {
    if (is_json_lines(file, {}))
      throw DataError(
          "{}: expected lines of text, found JSON lines; extract the text with jq -r .FIELD FILE > "
          "TEXT",
          file.path());
    ExampleIndex index;
    for_each_line_block(file, heard, [&](std::span<const Line> lines) {
      std::vector<std::int64_t> tokens(lines.size());
      parallel_for(lines.size(), [&](std::size_t i) {
        const std::string place = line_location(file.path(), lines[i].number);
        tokens[i] = std::ssize(tokenizer.encode(lines[i].text, place));
        if (tokens[i] == 0)
          throw DataError("{}: expected text in every line of both files, found an empty line",
                          place);
      });
      for (std::size_t i = 0; i < lines.size(); ++i)
        index.add(lines[i].offset, tokens[i], line_location(file.path(), lines[i].number));
    });
    index.finish(file.size());
    return index;
  }

  SharedFile file_;
  Tokenizer tokenizer_;
  SpecialTokenTemplate frame_;
  ExampleIndex index_;
};

class PairExamples final : public Examples {
 public:
  PairExamples(Side source, Side target, const SpecialTokenIds& ids)
      : source_(std::move(source)), target_(std::move(target)), ids_(ids) {
    if (source_.lines() == target_.lines()) return;
    const bool source_is_longer = source_.lines() > target_.lines();
    const Side& longer = source_is_longer ? source_ : target_;
    const Side& shorter = source_is_longer ? target_ : source_;
    throw DataError("{}: has {} lines, but {} has {}: line {} has no counterpart",
                    longer.place(shorter.lines()),
                    longer.lines(),
                    shorter.file().path(),
                    shorter.lines(),
                    shorter.lines() + 1);
  }

  // Collective.
  void open_links(const ConfigPath& path,
                  const Communicator& all,
                  const ProgressCallback& listener) {
    links_.emplace(
        path, size(), [this](std::int64_t pair) { return text_lengths(pair); }, all, listener);
  }

  std::int64_t size() const override { return target_.lines(); }
  const std::string& path() const override { return target_.file().path(); }
  std::string place(std::int64_t example) const override {
    return (source_.tokens(example) > target_.tokens(example) ? source_ : target_).place(example);
  }
  Lengths lengths(std::int64_t example) const override {
    return {source_.tokens(example), target_.tokens(example)};
  }
  std::int64_t extra_columns() const override { return 1; }

  Batch read(const BatchRequest& request) const override {
    const auto rows = std::ssize(request.examples);
    Batch batch;
    const Tensor source = full_tensor({rows, request.columns.source}, 0);
    const Tensor source_length = full_tensor({rows}, 0);
    const Tensor tokens = full_tensor({rows, request.columns.target}, 0);
    const Tensor targets = full_tensor({rows, request.columns.target}, ignored_target);
    const Tensor length = full_tensor({rows}, 0);
    for (const char* name : {"tokens", "source_tokens", "bytes", "rows", "cells"})
      batch.counts[name] = 0;
    std::vector<std::vector<AlignmentLink>> links(request.examples.size());
    for (std::size_t row = 0; row < request.examples.size(); ++row) {
      const std::int64_t example = request.examples[row];
      if (example < 0) continue;
      const Random random = request.place.child(static_cast<std::uint64_t>(example));
      const std::vector<std::int64_t> from =
          source_.read(example, request.columns.source, request, random.child("source")).ids;
      const auto [to, bytes] =
          target_.read(example, request.columns.target - 1, request, random.child("target"));
      std::ranges::copy(from, row_of(source, row).begin());
      row_of(tokens, row)[0] = ids_.begin;
      std::ranges::copy(to, row_of(tokens, row).begin() + 1);
      std::ranges::copy(to, row_of(targets, row).begin());
      row_of(targets, row)[to.size()] = ids_.end;
      source_length.span<std::int64_t>()[row] = std::ssize(from);
      length.span<std::int64_t>()[row] = std::ssize(to) + 1;
      batch.counts["tokens"] += std::ssize(to) + 1;
      batch.counts["source_tokens"] += std::ssize(from);
      batch.counts["bytes"] += bytes + 1;
      batch.counts["rows"] += 1;
      batch.counts["cells"] += std::ssize(from) * (std::ssize(to) + 1);
      if (!links_) continue;
      links[row] = links_->read(example, text_lengths(example));
      const Range source_text = source_.text_of(std::ssize(from));
      const Range target_text = target_.text_of(std::ssize(to));
      for (AlignmentLink& link : links[row]) {
        link.source += source_text.begin;
        link.target += target_text.begin;
      }
      std::erase_if(links[row], [&](const AlignmentLink& link) {
        return link.source >= source_text.end || link.target >= target_text.end;
      });
    }
    batch.fields = {{"source", source},
                    {"source_length", source_length},
                    {"tokens", tokens},
                    {"targets", targets},
                    {"length", length}};
    if (links_) add_links(links, batch);
    return batch;
  }

 private:
  Lengths text_lengths(std::int64_t example) const {
    return {source_.text_tokens(example), target_.text_tokens(example)};
  }

  void add_links(const std::vector<std::vector<AlignmentLink>>& links, Batch& batch) const {
    std::size_t most = 1;
    for (const auto& of_row : links) most = std::max(most, of_row.size());
    const Tensor field = full_tensor({std::ssize(links), static_cast<std::int64_t>(most), 2}, -1);
    std::int64_t linked = 0;
    for (std::size_t row = 0; row < links.size(); ++row) {
      std::vector<std::int64_t> targets;
      std::int64_t* to = field.data<std::int64_t>() + 2 * row * most;
      for (const AlignmentLink& link : links[row]) {
        *to++ = link.source;
        *to++ = link.target;
        targets.push_back(link.target);
      }
      std::ranges::sort(targets);
      linked += std::unique(targets.begin(), targets.end()) - targets.begin();
    }
    batch.fields["links"] = field;
    batch.counts["linked"] = linked;
  }

  Side source_;
  Side target_;
  SpecialTokenIds ids_;
  std::optional<AlignmentFile> links_;
};

}  // namespace

std::vector<AlignmentLink> parse_alignment(std::string_view line,
                                           const Lengths& lengths,
                                           std::string_view place) {
  std::vector<AlignmentLink> links;
  while (!line.empty()) {
    if (line.front() == ' ' || line.front() == '\t') {
      line.remove_prefix(1);
      continue;
    }
    const std::string_view word = line.substr(0, line.find_first_of(" \t"));
    std::string_view rest = word;
    AlignmentLink link;
    link.source = take_number(rest);
    const bool is_parted = link.source >= 0 && rest.starts_with('-');
    if (is_parted) {
      rest.remove_prefix(1);
      link.target = take_number(rest);
    }
    if (!is_parted || link.target < 0 || !rest.empty())
      throw DataError(
          "{}: expected links such as 0-2 (source and target token, counted from 0), found {}",
          place,
          quote(word));
    if (link.source >= lengths.source || link.target >= lengths.target)
      throw DataError(
          "{}: link {} is out of range: the pair has {} source and {} target tokens, counted from "
          "0",
          place,
          truncated(word),
          lengths.source,
          lengths.target);
    links.push_back(link);
    line.remove_prefix(word.size());
  }
  return links;
}

AlignmentFile::AlignmentFile(const ConfigPath& path,
                             std::int64_t pairs,
                             const std::function<Lengths(std::int64_t)>& lengths,
                             const Communicator& all,
                             const ProgressCallback& listener)
    : file_(open_shared(path, all)),
      index_(ExampleIndex::from_bytes(
          scan_shared(file_, all, listener, [=](const auto& file, const auto& heard) {
            return scanned(file, pairs, lengths, heard).bytes();
          }))) {}

std::vector<AlignmentLink> AlignmentFile::read(std::int64_t pair, const Lengths& lengths) const {
  const std::string bytes = read_bytes(*file_, index_.begin(pair), index_.end(pair));
  return parse_alignment(without_line_end(bytes), lengths, line_location(file_->path(), pair + 1));
}

std::shared_ptr<const Examples> open_parallel_corpus(const ConfigPath& source,
                                                     const ConfigPath& target,
                                                     const Tokenizer& source_tokenizer,
                                                     const Tokenizer& target_tokenizer,
                                                     const Communicator& all,
                                                     const ProgressCallback& listener,
                                                     const ConfigPath& links,
                                                     const SpecialTokenNames& named) {
  const SpecialTokenIds ids = sentence_ids(target_tokenizer, named);
  Side first(source, source_tokenizer, SpecialTokenTemplate(source_tokenizer), all, listener);
  const SpecialTokenTemplate of_target =
      SpecialTokenTemplate(target_tokenizer).without_end(ids.end);
  Side second(target, target_tokenizer, of_target, all, listener);
  const auto pairs = std::make_shared<PairExamples>(std::move(first), std::move(second), ids);
  if (!links.empty()) pairs->open_links(links, all, listener);
  return pairs;
}

}  // namespace longspan
