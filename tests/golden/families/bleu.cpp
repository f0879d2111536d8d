// BLEU and the tokenizer 13a (sacreBLEU).
#include "framework/metrics/bleu.h"

#include <gtest/gtest.h>

#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

using Lines = std::vector<std::string>;

// Splits a dataset of bytes into lines, one sentence each.
Lines lines_of(const GoldenFile& file, const std::string& dataset) {
  Lines lines(1);
  for (const std::int64_t byte : file.ids(dataset).span<std::int64_t>())
    if (byte == '\n')
      lines.emplace_back();
    else
      lines.back() += static_cast<char>(byte);
  return lines;
}

void expect_tokens(const GoldenFile& file, const Lines& lines, const std::string& dataset) {
  Lines found;
  for (const std::string& line : lines) found.push_back(tokenize_13a(line));
  EXPECT_EQ(found, lines_of(file, dataset)) << file.name() << ": " << dataset;
}

// Values of all corpora, one list per dataset.
struct Found {
  testing::Values bleu, bleu_whitespace, brevity_penalty, precisions;
  std::vector<std::int64_t> counts, totals, sys_len, ref_len;

  void add(const BleuSums& sums, const BleuSums& of_words) {
    const Bleu usual = longspan::bleu(sums);
    bleu.push_back(usual.score);
    bleu_whitespace.push_back(longspan::bleu(of_words).score);
    brevity_penalty.push_back(usual.brevity_penalty);
    precisions.insert(precisions.end(), usual.precisions.begin(), usual.precisions.end());
    counts.insert(counts.end(), sums.matches.begin(), sums.matches.end());
    totals.insert(totals.end(), sums.totals.begin(), sums.totals.end());
    sys_len.push_back(sums.hypothesis_tokens);
    ref_len.push_back(sums.reference_tokens);
  }
};

void expect_all(const GoldenFile& file, const Found& found) {
  const auto numbers = [&](const char* name, const testing::Values& values) {
    expect_output(file, name, testing::tensor_of<double>(values, {std::ssize(values)}));
  };
  const auto counts = [&](const std::string& name, const std::vector<std::int64_t>& values) {
    const auto expected = file.ids("outputs/" + name).span<std::int64_t>();
    EXPECT_EQ(values, std::vector(expected.begin(), expected.end())) << file.name() << ": " << name;
  };
  numbers("bleu", found.bleu);
  numbers("bleu_whitespace", found.bleu_whitespace);
  numbers("brevity_penalty", found.brevity_penalty);
  numbers("precisions", found.precisions);
  counts("counts", found.counts);
  counts("totals", found.totals);
  counts("sys_len", found.sys_len);
  counts("ref_len", found.ref_len);
}

}  // namespace

void check_bleu(const GoldenFile& file) {
  if (file.text("smoothing") != "exp" || file.text("tokenize") != "13a" || file.flag("lowercase"))
    throw DataError("{}: there is no such case of BLEU", file.name());
  expect_extent(file, "max_order", std::int64_t{BleuSums::orders});
  Found found;
  for (std::int64_t corpus = 0; corpus < file.integer("corpora"); ++corpus) {
    const std::string number = fmt::format("{:02}", corpus);
    const Lines hypotheses = lines_of(file, "inputs/hypothesis_" + number);
    expect_tokens(file, hypotheses, "outputs/hypothesis_tokens_" + number);
    std::vector<Lines> references(hypotheses.size());
    for (int k = 0; file.has(fmt::format("inputs/reference_{}_{}", number, k)); ++k) {
      const Lines lines = lines_of(file, fmt::format("inputs/reference_{}_{}", number, k));
      expect_tokens(file, lines, fmt::format("outputs/reference_tokens_{}_{}", number, k));
      ASSERT_EQ(lines.size(), references.size()) << file.name();
      for (std::size_t i = 0; i < lines.size(); ++i) references[i].push_back(lines[i]);
    }
    BleuSums sums, of_words;
    for (std::size_t i = 0; i < hypotheses.size(); ++i) {
      sums.add(hypotheses[i], references[i]);
      of_words.add(hypotheses[i], references[i], BleuTokens::white_space);
    }
    found.add(sums, of_words);
  }
  expect_all(file, found);
}

}  // namespace longspan::golden
