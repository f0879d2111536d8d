// `longspan evaluate` for programs that embed its options in their own command line.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "framework/data/progress.h"
#include "framework/distributed/session.h"
#include "launch/cli/decoding_arguments.h"
#include "launch/cli/loaded_run.h"

namespace CLI {
class App;
}

namespace longspan {

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
