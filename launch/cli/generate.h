// What `longspan generate` makes, as values.
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
  std::string text;               // of them
};

struct Generated {
  std::vector<GeneratedSample> samples;  // that go on with a prompt
  std::vector<std::string> lines;        // what became of lines
};

struct GenerateRequest {
  std::vector<std::string> lines = {};     // in place of those of the file --input
  std::function<void()> after_token = {};  // or a batch of lines; told on every rank
};

// Collective. The same samples and lines as the command's. Throws what `load_run` and the making
// throw.
using Generation = std::function<Generated(Session&, const GenerateRequest&)>;

// Binds the options of the command. Nothing is written: --output and those of images do nothing.
Generation bind_generation(CLI::App& app);

}  // namespace longspan
