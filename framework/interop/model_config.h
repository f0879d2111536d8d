// config.json: what a model is, as the package transformers writes it.
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

inline constexpr int most_json_depth = 16;
// Of the positions that a config.json may say.
inline constexpr std::int64_t max_positions = std::int64_t{1} << 32;

// Which numbers are taken, and how that is said.
struct NumberRange {
  double least = -1e300;
  double below = 1e300;
  const char* text = "a number";
};
inline constexpr NumberRange from_0 = {.least = 0, .text = "at least 0"};
inline constexpr NumberRange above_0 = {.least = 1e-300, .text = "more than 0"};
inline constexpr NumberRange from_1 = {.least = 1, .text = "at least 1"};
inline constexpr NumberRange of_dropout = {
    .least = 0, .below = 1, .text = "at least 0 and less than 1"};

// Reads one key after another and knows which were not asked for. Null is as good as not there.
// Each throws DataError with the file, the key, what was found and what is wanted.
class ModelConfig {
 public:
  // Throws DataError where it is no JSON object, longer than a MiB, or says a key twice.
  explicit ModelConfig(const std::filesystem::path& path);

  // The object that is the value of a key, to be read and finished by itself.
  ModelConfig section(const std::string& key) const;

  std::string place() const { return path_.string(); }
  bool has(const std::string& key) const;
  // Null too.
  bool is_there(const std::string& key) const;
  std::string text(const std::string& key) const;
  std::int64_t integer(const std::string& key, std::int64_t least, std::int64_t most) const;
  double number(const std::string& key, double otherwise, const NumberRange& range = {}) const;
  bool flag(const std::string& key, bool otherwise) const;
  // Throws where the key is there with another value: `because` says what there is instead.
  void require_flag(const std::string& key, bool wanted, const std::string& because) const;
  void require_number(const std::string& key, double wanted, const std::string& because) const;
  bool is_list(const std::string& key) const;
  // What a list has; nothing where it is not there.
  std::vector<std::string> texts(const std::string& key) const;
  std::vector<double> numbers(const std::string& key) const;
  // What is said of special tokens, "bos_token_id" and the like: an id, a list of ids or null, each
  // as it is written. Throws where it is something else.
  nlohmann::ordered_json special_tokens() const;
  // These do not change what the model computes.
  void ignore_keys(std::initializer_list<std::string_view> keys) const;
  // Neither do these of any model, of all versions of transformers: names, versions, dtypes, ids of
  // special tokens, how to generate.
  void pass_over_common() const;
  // Throws where it is more than a decoder, or than an encoder; and where it is not both.
  void require_decoder_alone() const;
  void require_encoder_alone() const;
  void require_encoder_and_decoder() const;
  // Throws where a key was not asked for: it may change what the model computes.
  void finish() const;
  // Throws DataError that begins with the file and the key.
  [[noreturn]] void throw_data_error(const std::string& key, const std::string& what) const;

 private:
  ModelConfig(std::filesystem::path path, nlohmann::json object, std::string inside);
  const nlohmann::json& list(const std::string& key) const;
  // Null where it is not there.
  const nlohmann::json& value(const std::string& key) const;

  std::filesystem::path path_;
  nlohmann::json object_;
  std::string inside_;  // what stands before a key in messages: "rope_scaling."
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace longspan
