#include "framework/training_loop/checkpoint_values.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "framework/core/quote.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/training_loop/loading.h"
#include "framework/training_loop/resume.h"
#include "framework/training_loop/skipped_data.h"

namespace longspan {
namespace {

constexpr std::int64_t max_steps = 999'999'999;
constexpr std::int64_t max_count = std::int64_t{1} << 62;
constexpr std::size_t max_word = 200;                            // bytes
constexpr std::size_t max_configuration = std::size_t{1} << 20;  // bytes
// Scalars that only a run has.
constexpr std::array<std::string_view, 4> prefixes = {
    "trainer/", "optimizer/", "run/", "loss_scale/"};

enum class Need : std::uint8_t { required, optional };

std::string found_text(const Scalars::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return quote(*text);
  return std::visit([](const auto& held) { return fmt::format("{}", held); }, value);
}

class Judgement {
 public:
  explicit Judgement(const Checkpoint& checkpoint)
      : checkpoint_(checkpoint), place_((checkpoint.path() / "manifest.json").string()) {}

  // Returns nothing if the scalar is missing or is not an integer in that range.
  std::optional<std::int64_t> integer(const std::string& name,
                                      std::int64_t least,
                                      std::int64_t most,
                                      Need need = Need::required) {
    const std::string wanted = fmt::format("an integer from {} to {}", least, most);
    const auto* value = held<std::int64_t>(name, wanted, need);
    if (value == nullptr) return std::nullopt;
    if (*value >= least && *value <= most) return *value;
    wrong(name, wanted);
    return std::nullopt;
  }
  template <typename F>
  void number(const std::string& name, const std::string& wanted, Need need, F&& is_right) {
    const auto* value = held<double>(name, wanted, need);
    if (value != nullptr && !is_right(*value)) wrong(name, wanted);
  }
  const std::string* text(const std::string& name, Need need = Need::required) {
    return held<std::string>(name, "text", need);
  }
  void word(const std::string& name, Need need) {
    const std::string* value = text(name, need);
    if (value != nullptr && (value->empty() || value->size() > max_word))
      wrong(name, fmt::format("a string of 1 to {} characters", max_word));
  }
  bool has(const std::string& name) const { return checkpoint_.scalars().has(name); }

  void say(const std::string& sentence) {
    problems_.push_back(fmt::format("{}: {}", place_, sentence));
  }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  std::vector<std::string> problems() && { return std::move(problems_); }

 private:
  template <typename T>
  const T* held(const std::string& name, const std::string& wanted, Need need) {
    const auto& values = checkpoint_.scalars().values();
    const auto found = values.find(name);
    if (found == values.end()) {
      if (need == Need::required)
        say(fmt::format("scalar \"{}\" is missing (expected {})", name, wanted));
      return nullptr;
    }
    const T* value = std::get_if<T>(&found->second);
    if (value == nullptr) wrong(name, wanted);
    return value;
  }
  void wrong(const std::string& name, const std::string& wanted) {
    say(fmt::format("scalar \"{}\": expected {}, found {}",
                    name,
                    wanted,
                    found_text(checkpoint_.scalars().values().at(name))));
  }

  const Checkpoint& checkpoint_;
  std::string place_;
  std::vector<std::string> problems_;
};

// The step is the manifest's. Each step either updated the weights or was skipped.
void check_counters(Judgement& judgement) {
  const std::int64_t step = judgement.checkpoint().info().step;
  const auto steps = judgement.integer("trainer/steps", 0, max_steps);
  const auto skipped = judgement.integer("trainer/num_skipped", 0, max_steps);
  const auto in_a_row = judgement.integer("trainer/consecutive_skips", 0, max_steps);
  const auto updates = judgement.integer("optimizer/num_updates", 0, max_steps);
  judgement.integer("trainer/tokens", 0, max_count);
  if (steps && *steps != step)
    judgement.say(fmt::format(
        "trainer/steps: expected the step of the checkpoint, {}, found {}", step, *steps));
  if (steps && skipped && updates && *updates + *skipped != *steps)
    judgement.say(
        fmt::format("trainer/steps: expected the sum of optimizer/num_updates = {} and "
                    "trainer/num_skipped = {}, found {}",
                    *updates,
                    *skipped,
                    *steps));
  if (skipped && in_a_row && *in_a_row > *skipped)
    judgement.say(fmt::format(
        "trainer/consecutive_skips: expected at most trainer/num_skipped = {}, found {}",
        *skipped,
        *in_a_row));
}

void check_loss_scale(Judgement& judgement) {
  if (!judgement.has("loss_scale/scale") && !judgement.has("loss_scale/growth_tracker") &&
      !judgement.has("loss_scale/hysteresis_left"))
    return;
  const std::string wanted = "a power of two of at least 1";
  judgement.number("loss_scale/scale", wanted, Need::required, [](double value) {
    int exponent = 0;
    return std::isfinite(value) && value >= LossScaler::least &&
           std::frexp(value, &exponent) == 0.5;
  });
  judgement.integer("loss_scale/growth_tracker", 0, max_steps);
  judgement.integer("loss_scale/hysteresis_left", 0, max_count);
}

void check_texts(Judgement& judgement, Need need) {
  const std::string& configuration = judgement.checkpoint().info().configuration;
  const std::size_t least = need == Need::required ? 1 : 0;
  if (configuration.size() < least || configuration.size() > max_configuration)
    judgement.say(fmt::format("configuration: expected {} to {} bytes, found {}",
                              least,
                              max_configuration,
                              configuration.size()));
  if (const std::string* tokenizer = judgement.text(tokenizer_scalar, need)) {
    try {
      Tokenizer::from_json(*tokenizer, fmt::format("scalar \"{}\"", tokenizer_scalar));
    } catch (const DataError& error) {
      judgement.say(error.what());
    }
  }
}

// Checks each stream's cursor and recurrent state.
void check_streams(Judgement& judgement) {
  const Checkpoint& checkpoint = judgement.checkpoint();
  if (!checkpoint.has(cursor_name)) {
    judgement.say(fmt::format("tensor \"{}\" is missing", cursor_name));
    return;
  }
  const Shape& cursors = checkpoint.shape_of(cursor_name);
  if (checkpoint.dtype_of(cursor_name) != DType::i64 || cursors.dimensions() != 2 ||
      cursors[0] < 1 || cursors[1] < 2) {
    judgement.say(fmt::format("tensor \"{}\": expected i64 [streams, 2 or more], found {} {}",
                              cursor_name,
                              name_of(checkpoint.dtype_of(cursor_name)),
                              cursors.to_string()));
    return;
  }
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.name.starts_with("recurrent_state/") &&
        (tensor.shape.dimensions() == 0 || tensor.shape[0] != cursors[0]))
      judgement.say(fmt::format("tensor \"{}\": expected [{} streams, ...], found {}",
                                tensor.name,
                                cursors[0],
                                tensor.shape.to_string()));
    if (tensor.name.starts_with("mems/") &&
        (tensor.shape.dimensions() != 3 || tensor.shape[0] != cursors[0] || tensor.shape[1] < 1))
      judgement.say(fmt::format("tensor \"{}\": expected [{} streams, rows, width], found {}",
                                tensor.name,
                                cursors[0],
                                tensor.shape.to_string()));
  }
}

// Any number, including NaN, as a step may have diverged.
void check_losses(Judgement& judgement) {
  const auto any = [](double) { return true; };
  judgement.number("metrics/loss", "a number", Need::optional, any);
  if (!judgement.has("metrics/validation_step")) return;
  const std::int64_t step = judgement.checkpoint().info().step;
  judgement.integer("metrics/validation_step", 0, step);
  judgement.number("metrics/validation_loss", "a number", Need::required, any);
  judgement.number("metrics/validation_bits_per_byte", "a number", Need::optional, any);
}

void check_best(Judgement& judgement) {
  if (!judgement.has("metrics/best_step")) return;
  judgement.text("metrics/best_metric");
  judgement.integer("metrics/best_step", 0, judgement.checkpoint().info().step);
  judgement.number("metrics/best_value", "a number", Need::required, [](double) { return true; });
}

void check_skipped_data(Judgement& judgement) {
  const std::string* skipped = judgement.text(skipped_data_scalar, Need::optional);
  if (skipped == nullptr) return;
  try {
    SkippedData::of_json(*skipped, fmt::format("scalar \"{}\"", skipped_data_scalar));
  } catch (const DataError& error) {
    judgement.say(error.what());
  }
}

bool is_of_a_run(const Checkpoint& checkpoint) {
  for (const auto& [name, value] : checkpoint.scalars().values())
    for (const std::string_view prefix : prefixes)
      if (name.starts_with(prefix)) return true;
  return false;
}

}  // namespace

std::vector<std::string> value_problems(const Checkpoint& checkpoint) {
  Judgement judgement(checkpoint);
  const bool is_run = is_of_a_run(checkpoint);
  check_texts(judgement, is_run ? Need::required : Need::optional);
  if (!is_run) return std::move(judgement).problems();
  check_counters(judgement);
  check_loss_scale(judgement);
  check_losses(judgement);
  check_best(judgement);
  check_skipped_data(judgement);
  check_streams(judgement);
  // Data fingerprint: any bits. Older checkpoints lack some of it.
  for (const char* name : {corpus_scalar, text_time_scalar, text_hash_scalar})
    judgement.integer(name,
                      std::numeric_limits<std::int64_t>::min(),
                      std::numeric_limits<std::int64_t>::max(),
                      std::string_view(name) == corpus_scalar ? Need::required : Need::optional);
  judgement.integer(threads_scalar, 1, max_threads);
  judgement.integer(zero_scalar, 0, 2, Need::optional);
  judgement.word(device_scalar, Need::optional);
  judgement.word("optimizer/state_signature", Need::optional);
  judgement.number(
      "optimizer/sum_squared_lr", "a number of at least 0", Need::optional, [](double value) {
        return std::isfinite(value) && value >= 0;
      });
  return std::move(judgement).problems();
}

Checkpoint open_run_checkpoint(const std::filesystem::path& path, const ReadProgress& watch) {
  Checkpoint checkpoint = Checkpoint::open(path, watch);
  if (const auto problems = value_problems(checkpoint); !problems.empty())
    throw DataError("{}", problems.front());
  return checkpoint;
}

}  // namespace longspan
