// `longspan generate` for tasks whose models make something of lines.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "launch/cli/decoding_arguments.h"
#include "launch/cli/loaded_run.h"

namespace longspan {

struct LineArguments {
  std::string input;         // a file, or "-" for standard input
  std::string output = "-";  // likewise
  DecodingArguments decoding;
};
// --input, --output and how results are searched for. Keep it alive with the action.
void add_lines(CLI::App& app, LineArguments& arguments);

// What the options need, where the configuration's task wants lines or wants none. Throws
// ConfigurationError.
void check_lines(const LineArguments& arguments, const RunConfig& settings);

// Collective. The results of lines; `name` is what messages call them. `after_batch`: see
// PredictRequest. Throws DataError.
std::vector<std::string> results_of_lines(std::span<const std::string> lines,
                                          const std::string& name,
                                          const TranslateOptions& decoding,
                                          const LoadedRun& run,
                                          const Session& session,
                                          const std::function<void()>& after_batch = {});

// Collective. Reads the lines, and writes those of the results where they belong. Throws DataError,
// and Failure where they cannot be written.
ExitCode generate_lines(const LineArguments& arguments,
                        const TranslateOptions& decoding,
                        const LoadedRun& run,
                        Session& session);

}  // namespace longspan
