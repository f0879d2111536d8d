// longspan attention-maps: attention weights of a trained model's heads on a text.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "framework/data/atomic_file.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/nn/attention/attention_recorder.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/loaded_run.h"
#include "launch/cli/prompt_text.h"

namespace longspan {
namespace {

constexpr std::int64_t max_tokens = 1024;

struct AttentionMapsArguments {
  RunArguments run;
  std::string text;
  std::vector<std::string> heads;
  std::int64_t tokens = 128;
};

// Parses "2:0".
AttentionRecorder::Head head_of(const std::string& word) {
  AttentionRecorder::Head head;
  const char* const end = word.data() + word.size();
  const auto layer = std::from_chars(word.data(), end, head.layer);
  if (layer.ec == std::errc() && layer.ptr != end && *layer.ptr == ':') {
    const auto rest = std::from_chars(layer.ptr + 1, end, head.head);
    if (rest.ec == std::errc() && rest.ptr == end && head.layer >= 0 && head.head >= 0) return head;
  }
  throw ConfigurationError(
      "--heads: expected LAYER:HEAD, both counted from 0, separated by commas, found {}", word);
}

std::vector<std::int64_t> tokens_of(const AttentionMapsArguments& arguments,
                                    const LoadedRun& run,
                                    const Session& session) {
  PromptText text("", arguments.text);
  const Prompt prompt = text.prompt(run.tokenizer, session);
  std::int64_t count = std::min(prompt.tokens, arguments.tokens);
  if (const std::int64_t longest = run.model->body().max_segment_length(); longest > 0)
    count = std::min(count, longest);
  if (count == 0) throw DataError("{}: contains no tokens", arguments.text);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(count));
  prompt.read(0, tokens);
  return tokens;
}

std::string as_json(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <typename Values, typename Write>
std::string list_of(const Values& values, const Write& write) {
  std::string text;
  for (const auto& value : values) text += (text.empty() ? "" : ", ") + write(value);
  return "[" + text + "]";
}

std::string map_text(const AttentionMap& map) {
  std::vector<std::span<const double>> rows;
  const auto keys = static_cast<std::size_t>(map.keys);
  for (std::size_t at = 0; at < map.weights.size(); at += keys)
    rows.push_back(std::span(map.weights).subspan(at, keys));
  const auto row = [](std::span<const double> weights) {
    return list_of(weights, [](double weight) { return fmt::format("{:.6g}", weight); });
  };
  return fmt::format(
      R"({{"layer": {}, "head": {}, "weights": {}}})", map.layer, map.head, list_of(rows, row));
}

std::string file_text(const AttentionMapsArguments& arguments,
                      const LoadedRun& run,
                      std::span<const std::int64_t> tokens,
                      const AttentionRecorder& watch) {
  TextStreamer streamer(run.tokenizer, {});
  std::vector<std::string> words;
  for (const std::int64_t token : tokens) words.push_back(streamer.push(token));
  return fmt::format("{{\"step\": {}, \"text\": {},\n\"tokens\": {},\n\"maps\": {}}}\n",
                     run.checkpoint.info().step,
                     as_json(arguments.text),
                     list_of(words, as_json),
                     list_of(watch.maps(), map_text));
}

ExitCode run_attention_maps(AttentionMapsArguments arguments, Session& session) {
  if (const int ranks = session.world().size(); ranks > 1)
    throw ConfigurationError("longspan attention-maps: expected 1 rank, found {}", ranks);
  std::vector<AttentionRecorder::Head> heads;
  for (const std::string& word : arguments.heads) heads.push_back(head_of(word));
  // Exported attention weights must be exact.
  arguments.run.settings.emplace_back("precision.compute_dtype=float64");
  const LoadedRun opened = load_run(arguments.run, session, DefaultAxis::data);
  if (opened.configuration->task != "language_modeling")
    throw ConfigurationError(
        "longspan attention-maps requires run.task: language_modeling, found {}",
        opened.configuration->task);
  const std::vector<std::int64_t> tokens = tokens_of(arguments, opened, session);
  const auto watch = std::make_shared<AttentionRecorder>(heads);
  const NoGradGuard unrecorded;
  const Tensor ids = Tensor::from(std::span<const std::int64_t>(tokens),
                                  {1, std::ssize(tokens)},
                                  opened.model->parameters().device().host(),
                                  MemoryTag::workspace);
  opened.model->scores({.fields = {{"tokens", ids}},
                        .max_mem_len = opened.model->body().max_mem_len(),
                        .only_last = true},
                       ForwardContext{.watch = watch});
  for (const AttentionRecorder::Head& head : heads)
    if (head.layer >= watch->layers())
      throw ConfigurationError("--heads: expected an attention layer from 0 to {}, found {}:{}",
                               watch->layers() - 1,
                               head.layer,
                               head.head);
  const std::filesystem::path folder = opened.directory / "attention";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Failure("{}: cannot be created: {}", folder.string(), error.message());
  const std::filesystem::path path =
      folder / fmt::format("step-{:09}.json", opened.checkpoint.info().step);
  AtomicFile file(path);
  file.write(file_text(arguments, opened, tokens, *watch));
  file.finish();
  print(session, path.string() + "\n");
  return ExitCode::ok;
}

}  // namespace

Command attention_maps_command() {
  return {
      "attention-maps",
      "Write the attention weights of selected heads of a language model on a text, for longspan "
      "report",
      "  longspan attention-maps runs/quickstart --text page.txt --heads 0:0,5:3\n"
      "  longspan attention-maps runs/quickstart --text page.txt --heads 2:1 --max-tokens 256\n",
      [](CLI::App& app) -> Action {
        auto arguments = std::make_shared<AttentionMapsArguments>();
        add_run(app, arguments->run);
        app.add_option("--text", arguments->text, "text file, read up to --max-tokens")
            ->required()
            ->check(not_empty_text());
        app.add_option("--heads",
                       arguments->heads,
                       "comma-separated heads as LAYER:HEAD, both from 0; layers count in order of "
                       "execution, a recurrent layer once per pass")
            ->type_name("LAYER:HEAD")
            ->required()
            ->expected(1)
            ->take_all()
            ->delimiter(',')
            ->allow_extra_args(false);
        app.add_option("--max-tokens", arguments->tokens, "maximum number of tokens to read")
            ->transform(whole_number<std::int64_t>(2, max_tokens))
            ->capture_default_str();
        return [arguments](Session& session) { return run_attention_maps(*arguments, session); };
      }};
}

}  // namespace longspan
