#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <map>
#include <memory>
#include <optional>

#include "framework/data/tokenization/tokenizer.h"
#include "launch/cli/api.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/exported_tokenizer.h"
#include "launch/cli/prompt_text.h"

namespace longspan {
namespace {

// Each holds its own recurrent state of the model.
constexpr std::int64_t max_samples = 1 << 20;

struct GenerateArguments {
  RunArguments run;
  std::optional<std::string> prompt;
  std::string prompt_file;
  GenerationOptions generation;
  std::optional<std::int64_t> segment;
  LineArguments lines;
  ImageArguments images;
};

// The first sample is printed as it is generated, the others when complete.
class Printer {
 public:
  Printer(const Session& session, const TextStreamer& text, std::size_t samples)
      : session_(session), texts_(samples, text), streams_(samples), later_(samples) {}

  void push(std::size_t sample, std::int64_t token) {
    show(sample, streams_[sample].push(texts_[sample].push(token)));
  }
  void finish(const PromptText& prompt) {
    for (std::size_t sample = 0; sample < streams_.size(); ++sample) {
      show(sample, streams_[sample].push(texts_[sample].finish()));
      show(sample, streams_[sample].finish());
      if (sample == 0) continue;
      print(session_, "\n\n");
      prompt.print(session_);
      print(session_, later_[sample]);
    }
    print(session_, "\n");
  }

 private:
  void show(std::size_t sample, const std::string& text) {
    if (sample == 0)
      print(session_, text);
    else
      later_[sample] += text;
  }

  const Session& session_;
  std::vector<TextStreamer> texts_;
  std::vector<Utf8Stream> streams_;
  std::vector<std::string> later_;
};

// Loads the model and checks the arguments against it.
LoadedRun open(const GenerateArguments& arguments, Session& session) {
  const bool has_lines = !arguments.lines.input.empty();
  LoadedRun opened =
      load_run(arguments.run, session, has_lines ? DefaultAxis::data : DefaultAxis::tensor);
  check_lines(arguments.lines, *opened.configuration);
  check_images(arguments.images, *opened.configuration);
  return opened;
}

TranslateOptions decoding_of(const GenerateArguments& arguments) {
  TranslateOptions decoding = arguments.lines.decoding.options;
  decoding.seed = arguments.generation.seed;
  if (arguments.lines.decoding.sample) decoding.sampling = arguments.generation.sampling;
  return decoding;
}

DocumentTokens tokens_of(const LoadedRun& opened) {
  return document_tokens_of(
      opened.checkpoint.scalars(), opened.tokenizer, opened.configuration->data);
}

GenerationOptions options_of(const GenerateArguments& arguments, const LoadedRun& opened) {
  GenerationOptions options = arguments.generation;
  options.segment = arguments.segment.value_or(opened.configuration->data.segment);
  options.vocabulary = opened.tokenizer.vocabulary();
  options.ends = tokens_of(opened).ends;
  return options;
}

ExitCode run_generate(const GenerateArguments& arguments, Session& session) {
  PromptText text(arguments.prompt, arguments.prompt_file);
  const LoadedRun opened = open(arguments, session);
  if (!arguments.images.sheet.empty())
    return generate_images(arguments.images, arguments.generation, opened, session);
  if (!arguments.lines.input.empty())
    return generate_lines(arguments.lines, decoding_of(arguments), opened, session);
  const Prompt prompt = text.prompt(opened.tokenizer, session, tokens_of(opened).begin);
  const GenerationOptions options = options_of(arguments, opened);
  Printer printer(session,
                  TextStreamer(opened.tokenizer, text.last_tokens()),
                  static_cast<std::size_t>(options.samples));
  check_generation(*opened.model, prompt.tokens, options);
  text.print(session);
  generate(*opened.model, prompt, options, [&](std::int64_t sample, std::int64_t token) {
    printer.push(static_cast<std::size_t>(sample), token);
  });
  printer.finish(text);
  return ExitCode::ok;
}

std::string text_of(TextStreamer tokens, const std::vector<std::int64_t>& ids) {
  Utf8Stream stream;
  std::string text;
  for (const std::int64_t id : ids) text += stream.push(tokens.push(id));
  text += stream.push(tokens.finish());
  return text + stream.finish();
}

Generated values(const GenerateArguments& arguments,
                 Session& session,
                 const GenerateRequest& request) {
  PromptText text(arguments.prompt, arguments.prompt_file);
  const LoadedRun opened = open(arguments, session);
  Generated made;
  if (const std::string& name = arguments.lines.input; !name.empty()) {
    made.lines = results_of_lines(
        request.lines, name, decoding_of(arguments), opened, session, request.after_token);
    return made;
  }
  const Prompt prompt = text.prompt(opened.tokenizer, session, tokens_of(opened).begin);
  const auto samples = generate(
      *opened.model, prompt, options_of(arguments, opened), [&](std::int64_t, std::int64_t) {
        if (request.after_token) request.after_token();
      });
  const TextStreamer before(opened.tokenizer, text.last_tokens());
  for (const std::vector<std::int64_t>& ids : samples)
    made.samples.push_back({ids, text_of(before, ids)});
  return made;
}

void bind_generate(CLI::App& app, GenerateArguments& arguments) {
  add_run(app, arguments.run);
  add_lines(app, arguments.lines);
  add_images(app, arguments.images);
  GenerationOptions& options = arguments.generation;
  auto* prompt =
      app.add_option("--prompt",
                     arguments.prompt,
                     "text to continue (default: a new document, after the end-of-text token if "
                     "the model has one, else after a newline)");
  app.add_option(
         "--prompt-file",
         arguments.prompt_file,
         fmt::format("file with the text to continue, at most {} MiB; only its end is input to a "
                     "model without memory or model.stateful",
                     max_prompt_bytes >> 20))
      ->check(not_empty_text())
      ->excludes(prompt);
  app.add_option("--max-new-tokens",
                 options.tokens,
                 "maximum number of new tokens per sample; a sample ends earlier at an end token "
                 "(data.documents.end_token, or eos_token_id of an import)")
      ->transform(whole_number<std::int64_t>(0))
      ->capture_default_str();
  app.add_option(
         "--num-samples", options.samples, "number of samples, or of images with --image-sheet")
      ->transform(whole_number<std::int64_t>(1, max_samples))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "random seed")
      ->transform(whole_number<std::uint64_t>(0))
      ->capture_default_str();
  app.add_option("--temperature", options.sampling.temperature, "sampling temperature; 0: greedy")
      ->check(no_negative_number())
      ->capture_default_str();
  app.add_option(
         "--top-k", options.sampling.top_k, "number of most probable tokens to sample from; 0: all")
      ->transform(whole_number<std::int64_t>(0))
      ->capture_default_str();
  app.add_option("--top-p",
                 options.sampling.top_p,
                 "cumulative probability of the most probable tokens to sample from, at most 1; 1: "
                 "all")
      ->check(positive_number())
      ->capture_default_str();
  app.add_option(
         "--mem-len",
         options.memory,
         "length of the Transformer-XL memory, in tokens; 0: no memory, the last tokens are "
         "recomputed for each new one (default: model.mem_len)")
      ->transform(whole_number<std::int64_t>(0));
  app.add_option("--seq-length",
                 arguments.segment,
                 "number of prompt tokens per forward pass, window length of a model without "
                 "memory, and segment length with model.stateful (default: data.seq_length)")
      ->transform(whole_number<std::int64_t>(1));
  // Options that would have no effect.
  CLI::Option* input = app.get_option("--input");
  for (const char* name : {"--output",
                           "--beam",
                           "--n-best",
                           "--sample",
                           "--length-penalty",
                           "--length-penalty-type",
                           "--max-extra-length"})
    app.get_option(name)->needs(input);
  CLI::Option* images = app.get_option("--image-sheet");
  for (const char* name : {"--prompt",
                           "--prompt-file",
                           "--max-new-tokens",
                           "--num-samples",
                           "--mem-len",
                           "--seq-length",
                           "--image-sheet"})
    app.get_option(name)->excludes(input);
  for (const char* name :
       {"--prompt", "--prompt-file", "--max-new-tokens", "--mem-len", "--seq-length"})
    app.get_option(name)->excludes(images);
}

}  // namespace

void add_decoding(CLI::App& app, DecodingArguments& arguments) {
  constexpr std::int64_t max_beam = 1024;
  TranslateOptions& options = arguments.options;
  app.add_option(
         "--beam", options.beam, "beam size; 1: greedy search. Only with run.task: translation.")
      ->transform(whole_number<std::int64_t>(1, max_beam))
      ->capture_default_str();
  app.add_option("--length-penalty",
                 options.alpha,
                 "exponent of the length penalty that divides the log-probability of a result; 0: "
                 "no penalty. Only with run.task: translation.")
      ->check(no_negative_number())
      ->capture_default_str();
  const std::map<std::string, LengthPenalty> kinds = {{"wu", LengthPenalty::wu},
                                                      {"power", LengthPenalty::power}};
  app.add_option("--length-penalty-type",
                 options.penalty,
                 "base of the length penalty for n tokens: wu, (5 + n) / 6 (Wu et al. 2016), or "
                 "power, n. Only with run.task: translation.")
      ->transform(CLI::CheckedTransformer(kinds).description(""))
      ->default_str("wu");
  app.add_option("--max-iterations",
                 options.iterations,
                 "number of decoding iterations; each predicts the least probable tokens again, "
                 "fewer every time, or all tokens with model.nat.objective: iterative. Only with "
                 "model.decoder_type: non_autoregressive.")
      ->transform(whole_number<std::int64_t>(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--length-beam",
                 options.length_beam,
                 "number of candidate target lengths around the predicted one. Only with "
                 "model.decoder_type: non_autoregressive.")
      ->transform(whole_number<std::int64_t>(1, max_beam))
      ->capture_default_str();
  app.add_option("--max-extra-length",
                 options.max_extra_length,
                 "maximum length of a result beyond that of its source line, in tokens. Only with "
                 "run.task: translation.")
      ->transform(whole_number<std::int64_t>(0, 1 << 24))
      ->capture_default_str();
}

void check_unused_options(const DecodingArguments& arguments,
                          const RunConfig& settings,
                          std::string_view command) {
  const bool searches = !settings.task_kind().decoded_goals.empty();
  const TranslateOptions& given = arguments.options;
  const TranslateOptions usual;
  const bool is_usual =
      given.beam == usual.beam && given.n_best == usual.n_best && given.alpha == usual.alpha &&
      given.penalty == usual.penalty && given.max_extra_length == usual.max_extra_length &&
      given.iterations == usual.iterations && given.length_beam == usual.length_beam;
  if (searches || is_usual) return;
  throw ConfigurationError(
      "longspan {}: --beam, --n-best, --length-penalty, --length-penalty-type, --max-extra-length, "
      "--max-iterations and --length-beam require run.task: translation, found {}",
      command,
      settings.task);
}

Generation bind_generation(CLI::App& app) {
  const auto arguments = std::make_shared<GenerateArguments>();
  bind_generate(app, *arguments);
  return [arguments](Session& session, const GenerateRequest& request) {
    return values(*arguments, session, request);
  };
}

Command generate_command() {
  return {"generate",
          "Generate text or images with a trained model, or translate, classify or tag its inputs",
          "  longspan generate runs/quickstart --prompt \"In the beginning\" --max-new-tokens 400\n"
          "  longspan generate runs/quickstart --temperature 0.8 --top-p 0.95 --num-samples 3\n"
          "  longspan generate runs/translation --input verses.en --output verses.es --beam 4\n"
          "  longspan generate runs/image-generation --image-sheet sheet.png --num-samples 16 "
          "--temperature 0.9\n"
          "  longspan launch -n 2 -- generate runs/large\n",
          [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<GenerateArguments>();
            bind_generate(app, *arguments);
            return [arguments](Session& session) { return run_generate(*arguments, session); };
          }};
}

}  // namespace longspan
