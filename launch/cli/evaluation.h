// Measuring how well a trained model predicts.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "framework/data/progress.h"
#include "framework/distributed/session.h"
#include "launch/cli/decoding_arguments.h"
#include "launch/cli/loaded_run.h"

namespace longspan {

// What of which run on what text, and how: as the options of `longspan evaluate` say.
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
  std::string data_target;  // of pairs
  DecodingArguments decoding;
};

struct Evaluated {
  nlohmann::ordered_json figures;  // what --json prints
  std::string text;                // what is printed without it
};

// Collective. Who listens hears how far it is, on every rank. Throws what `load_run` and the
// measuring throw.
Evaluated evaluate_run(const EvaluateArguments& arguments,
                       Session& session,
                       const ProgressCallback& heard);

}  // namespace longspan
