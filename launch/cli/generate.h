// Results of `longspan generate` as values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "framework/distributed/session.h"

namespace CLI {
class App;
}

namespace longspan {

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

}  // namespace longspan
