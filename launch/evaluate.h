// What `longspan evaluate` measures, as values.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "framework/comm/session.h"
#include "framework/data/scan_listener.h"

namespace CLI {
class App;
}

namespace longspan {

struct Evaluated {
  nlohmann::ordered_json figures;  // what --json prints
  std::string text;                // what is printed without it
};

// Collective. Who listens hears how far it is, on every rank. Throws what `open_run` and the
// measuring throw.
using Evaluation = std::function<Evaluated(Session&, const ScanListener& heard)>;

// Binds the options of the command but --json.
Evaluation bind_evaluation(CLI::App& app);

}  // namespace longspan
