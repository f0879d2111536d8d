// Evaluation and use of models. SPDX-License-Identifier: Apache-2.0
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "launch/cli/api.h"
#include "launch/python/python_values.h"

namespace longspan::python {
namespace {

using Ids = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>;
using Sample = std::pair<Ids, std::string>;

// Validates the words like a command line.
void parse(CLI::App& app, std::vector<std::string> words, const char* function) {
  std::ranges::reverse(words);  // in the parser's order
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw ConfigurationError("longspan.{}: {}", function, error.what());
  }
}

std::string evaluate(Session& session, const std::vector<std::string>& words) {
  const nb::gil_scoped_release others_run;
  CLI::App app;
  const Evaluation measure = bind_evaluation(app);
  parse(app, words, "evaluate");
  const Evaluated measured = measure(session, [](const ScanProgress&) { check_signals(); });
  return measured.figures.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Generated make(Session& session,
               const std::vector<std::string>& words,
               std::vector<std::string> lines) {
  const nb::gil_scoped_release others_run;
  CLI::App app;
  const Generation generation = bind_generation(app);
  parse(app, words, "generate");
  return generation(session, {.lines = std::move(lines), .after_token = check_signals});
}

Ids array_of(std::vector<std::int64_t> ids) {
  auto* const kept = new std::vector<std::int64_t>(std::move(ids));
  const nb::capsule owner(
      kept, [](void* last) noexcept { delete static_cast<std::vector<std::int64_t>*>(last); });
  return Ids(kept->data(), {kept->size()}, owner);
}

std::pair<std::vector<Sample>, std::vector<std::string>> generate(
    Session& session, const std::vector<std::string>& words, std::vector<std::string> lines) {
  Generated made = make(session, words, std::move(lines));
  std::vector<Sample> samples;
  for (GeneratedSample& sample : made.samples)
    samples.emplace_back(array_of(std::move(sample.ids)), std::move(sample.text));
  return {std::move(samples), std::move(made.lines)};
}

}  // namespace

void bind_use(nb::module_& module) {
  module.def("evaluate",
             &evaluate,
             nb::arg("session"),
             nb::arg("words"),
             "The output of `longspan evaluate --json` for these arguments.");
  module.def("generate",
             &generate,
             nb::arg("session"),
             nb::arg("words"),
             nb::arg("lines"),
             "The samples, or the results of the lines, for arguments of `longspan generate`.");
}

}  // namespace longspan::python
