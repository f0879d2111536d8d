// config.json of Hugging Face `transformers`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

inline constexpr int max_json_depth = 16;
// Upper bound of the number of positions in a config.json.
inline constexpr std::int64_t max_positions = std::int64_t{1} << 32;

// Accepted range of a number, and its description.
struct NumberRange {
  double least = -1e300;
  double below = 1e300;
  const char* text = "a number";
};
inline constexpr NumberRange from_0 = {.least = 0, .text = "at least 0"};
inline constexpr NumberRange above_0 = {.least = 1e-300, .text = "a number above 0"};
inline constexpr NumberRange from_1 = {.least = 1, .text = "at least 1"};
inline constexpr NumberRange of_dropout = {
    .least = 0, .below = 1, .text = "at least 0 and less than 1"};

// Reads keys one by one and records those that were not read. Null is equivalent to a missing key.
// All functions throw DataError with the file, the key, the found and the expected value.
class ModelConfig {
 public:
  // Throws DataError for a file above 1 MiB, anything but a JSON object, and duplicate keys.
  explicit ModelConfig(const std::filesystem::path& path);

  // Returns the object value of a key, to be read and finished separately.
  ModelConfig section(const std::string& key) const;

  std::string place() const { return path_.string(); }
  bool has(const std::string& key) const;
  // Returns true for null too.
  bool is_present(const std::string& key) const;
  std::string text(const std::string& key) const;
  std::int64_t integer(const std::string& key, std::int64_t least, std::int64_t most) const;
  double number(const std::string& key, double otherwise, const NumberRange& range = {}) const;
  bool flag(const std::string& key, bool otherwise) const;
  // Throws when the key has another value. `because`: what is supported instead.
  void require_flag(const std::string& key, bool wanted, const std::string& because) const;
  void require_number(const std::string& key, double wanted, const std::string& because) const;
  bool is_list(const std::string& key) const;
  // Returns the strings of a list; empty for a missing key.
  std::vector<std::string> texts(const std::string& key) const;
  // As above, of numbers. The largest one represents infinity.
  std::vector<double> numbers(const std::string& key) const;
  // Returns the special tokens, such as "bos_token_id": an id, a list of ids or null, each as
  // written. Throws for other types.
  nlohmann::ordered_json special_tokens() const;
  // Marks keys that do not change the model's output as read.
  void ignore_keys(std::initializer_list<std::string_view> keys) const;
  // Marks such keys that all models share, for all versions of transformers: names, versions,
  // dtypes, special token ids, generation settings.
  void pass_over_common() const;
  // Throws unless the model is only a decoder or only an encoder, or, for the other function, both.
  void require_decoder_alone() const;
  void require_encoder_alone() const;
  void require_encoder_and_decoder() const;
  // Throws for a key that was not read, because it may change the model's output.
  void finish() const;
  // Throws DataError prefixed with the file and the key.
  [[noreturn]] void throw_data_error(const std::string& key, const std::string& what) const;

 private:
  ModelConfig(std::filesystem::path path, nlohmann::json object, std::string inside);
  const nlohmann::json& list(const std::string& key) const;
  // Returns null for a missing key.
  const nlohmann::json& value(const std::string& key) const;

  std::filesystem::path path_;
  nlohmann::json object_;
  std::string inside_;  // prefix of keys in messages: "rope_scaling."
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace longspan
