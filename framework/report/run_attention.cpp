#include "framework/report/run_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "framework/report/page_text.h"

namespace longspan {
namespace {

constexpr std::uintmax_t max_file_bytes = std::uintmax_t{256} << 20;
constexpr std::size_t max_tokens = 4096;

std::string map_data(const HeadMap& map) {
  std::string rows;
  for (const std::vector<double>& row : map.weights) {
    std::string weights;
    for (const double weight : row)
      weights += fmt::format("{}{}", weights.empty() ? "" : ",", std::lround(1000 * weight));
    rows += fmt::format("{}[{}]", rows.empty() ? "" : ",", weights);
  }
  return fmt::format("{{\"layer\":{},\"head\":{},\"weights\":[{}]}}", map.layer, map.head, rows);
}

// Returns whether there is a finite weight for each pair of tokens.
bool is_valid(const RunAttention& attention) {
  const std::size_t count = attention.tokens.size();
  const auto is_row = [&](const std::vector<double>& row) {
    return row.size() == count &&
           std::ranges::all_of(row, [](double weight) { return std::abs(weight) < 1e6; });
  };
  return count > 0 && count <= max_tokens &&
         std::ranges::all_of(attention.maps, [&](const HeadMap& map) {
           return map.weights.size() == count && std::ranges::all_of(map.weights, is_row);
         });
}

}  // namespace

std::filesystem::path newest_attention(const std::filesystem::path& folder) {
  std::filesystem::path newest;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("step-") || !name.ends_with(".json")) continue;
    if (newest.empty() || newest.filename().string() < name) newest = entry.path();
  }
  return newest;
}

RunAttention read_run_attention(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error) ||
      std::filesystem::file_size(file, error) > max_file_bytes)
    return {};
  std::ifstream stream(file, std::ios::binary);
  try {
    const auto object = nlohmann::json::parse(stream);
    RunAttention attention = {.step = object.at("step").get<std::int64_t>(),
                              .tokens = object.at("tokens").get<std::vector<std::string>>()};
    for (const auto& map : object.at("maps"))
      attention.maps.push_back({map.at("layer").get<std::int64_t>(),
                                map.at("head").get<std::int64_t>(),
                                map.at("weights").get<std::vector<std::vector<double>>>()});
    if (is_valid(attention)) return attention;
  } catch (const nlohmann::json::exception&) {
    // A file of another format.
  }
  return {};
}

std::string attention_data(const RunAttention& attention, std::size_t max_bytes) {
  std::string tokens;
  for (const std::string& token : attention.tokens)
    tokens += (tokens.empty() ? "" : ",") + script_string(token);
  std::string maps;
  for (const HeadMap& map : attention.maps) {
    const std::string text = map_data(map);
    if (!maps.empty() && maps.size() + text.size() > max_bytes) break;
    maps += (maps.empty() ? "" : ",") + text;
  }
  return fmt::format("{{\"step\":{},\"tokens\":[{}],\"maps\":[{}]}}", attention.step, tokens, maps);
}

}  // namespace longspan
