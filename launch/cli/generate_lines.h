// `longspan generate` for tasks that transform lines.
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

}  // namespace longspan
