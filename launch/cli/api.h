// Training, evaluation and generation as functions, for the commands and for programs that embed
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/run_config.h"
#include "framework/data/progress.h"
#include "framework/decoding/generation.h"
#include "framework/distributed/session.h"
#include "framework/tasks/translate.h"
#include "framework/training_loop/training_run.h"
#include "launch/cli/configuration_text.h"
#include "launch/cli/loaded_run.h"

namespace CLI {
class App;
}

namespace longspan {

// Parses the configuration and trains (see run_training). Collective.
ExitCode train(Session& session, const ConfigurationText& source, const TrainingHooks& hooks = {});

// Decoding options shared by all subcommands that decode.

struct DecodingArguments {
  TranslateOptions options;
  bool sample = false;
};
// Adds --beam, --n-best, --length-penalty and related options. `arguments` must outlive the action.
void add_decoding(CLI::App& app, DecodingArguments& arguments);
// Throws ConfigurationError if decoding options are set for a task that does not search. `command`:
// "evaluate".
void check_unused_options(const DecodingArguments& arguments,
                          const RunConfig& settings,
                          std::string_view command);

// Results of `longspan generate` as values.

struct GeneratedSample {
  std::vector<std::int64_t> ids;  // without the prompt
  std::string text;               // of the IDs
};

struct Generated {
  std::vector<GeneratedSample> samples;  // continuations of a prompt
  std::vector<std::string> lines;        // results for input lines
};

struct GenerateRequest {
  std::vector<std::string> lines = {};     // replaces the lines of the file --input
  std::function<void()> after_token = {};  // called on every rank, also after a batch of lines
};

// Returns the same samples and lines as the command. Collective. Throws the errors of `load_run`
// and of generation.
using Generation = std::function<Generated(Session&, const GenerateRequest&)>;

// Binds the options of the command. Nothing is written: --output and the image options have no
// effect.
Generation bind_generation(CLI::App& app);

// `longspan generate` for image models.

struct ImageArguments {
  std::string sheet;                // a PNG file
  std::vector<std::string> labels;  // class names, assigned to the images round-robin
  std::string complete;             // an image file
  std::string upscale;              // an image file or a folder
};
// Adds --image-sheet, --class, --inpaint and --upscale. `arguments` must outlive the action.
void add_images(CLI::App& app, ImageArguments& arguments);

// Checks the image options against the task. Throws ConfigurationError.
void check_images(const ImageArguments& arguments, const RunConfig& settings);

// Generates or completes as many images as `options` requests, and writes them as a sheet.
// Collective. Throws DataError, ConfigurationError, and Failure if the sheet cannot be written.
ExitCode generate_images(const ImageArguments& arguments,
                         const GenerationOptions& options,
                         const LoadedRun& run,
                         Session& session);

// `longspan generate` for tasks that transform lines.

struct LineArguments {
  std::string input;         // a file, or "-" for standard input
  std::string output = "-";  // a file, or "-" for standard output
  DecodingArguments decoding;
};
// Adds --input, --output and the decoding options. `arguments` must outlive the action.
void add_lines(CLI::App& app, LineArguments& arguments);

// Checks the line options against the task. Throws ConfigurationError.
void check_lines(const LineArguments& arguments, const RunConfig& settings);

// Returns the results of lines. `name`: the input's name in messages. `after_batch`: see
// PredictRequest. Collective. Throws DataError.
std::vector<std::string> results_of_lines(std::span<const std::string> lines,
                                          const std::string& name,
                                          const TranslateOptions& decoding,
                                          const LoadedRun& run,
                                          const Session& session,
                                          const std::function<void()>& after_batch = {});

// Reads the lines and writes their results. Collective. Throws DataError, and Failure if the
// results cannot be written.
ExitCode generate_lines(const LineArguments& arguments,
                        const TranslateOptions& decoding,
                        const LoadedRun& run,
                        Session& session);

// `longspan evaluate` for programs that embed its options in their own command line.

// Options of `longspan evaluate`.
struct EvaluateArguments {
  RunArguments run;
  std::string split = "validation";
  std::string data;
  std::optional<std::int64_t> memory;
  std::optional<std::int64_t> recompute_context;
  std::optional<std::int64_t> stride;
  std::optional<std::int64_t> tokens;
  std::optional<std::int64_t> segment;
  std::optional<std::int64_t> batch;
  std::int64_t by_position = 0;
  std::int64_t needles = 0;
  std::int64_t depths = 10;
  std::string data_target;  // for pairs
  DecodingArguments decoding;
};

struct Evaluated {
  nlohmann::ordered_json figures;  // output of --json
  std::string text;                // output without --json
};

// Evaluates a run and reports progress to `heard` on every rank. Collective. Throws the errors of
// `load_run` and of the evaluation.
Evaluated evaluate_run(const EvaluateArguments& arguments,
                       Session& session,
                       const ProgressCallback& heard);

// evaluate_run with the parsed options.
using Evaluation = std::function<Evaluated(Session&, const ProgressCallback& heard)>;

// Binds all options of the command except --json.
Evaluation bind_evaluation(CLI::App& app);

}  // namespace longspan
