// Training from a Python program. SPDX-License-Identifier: Apache-2.0
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <optional>
#include <utility>

#include "framework/tracking/jsonl_file.h"
#include "framework/training_loop/step_metrics.h"
#include "launch/cli/api.h"
#include "launch/cli/configuration.h"
#include "launch/python/python_values.h"

namespace longspan::python {
namespace {

using Document = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Training handles these signals; afterwards the program's own handlers are restored.
class KeptHandlers {
 public:
  KeptHandlers() {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], nullptr, &kept_[i]);
  }
  KeptHandlers(const KeptHandlers&) = delete;
  KeptHandlers& operator=(const KeptHandlers&) = delete;
  ~KeptHandlers() {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &kept_[i], nullptr);
  }

 private:
  static constexpr std::array signals = {SIGUSR1, SIGUSR2, SIGTERM, SIGHUP, SIGINT};
  std::array<struct sigaction, signals.size()> kept_ = {};
};

// `open(epoch, document)` returns an iterator of ID arrays, or None at the end.
DocumentStreamFactory documents_of(const nb::object& open) {
  if (open.is_none()) return {};
  return [open = held(open)](const DocumentCursor& place) -> DocumentStream {
    const nb::gil_scoped_acquire interpreter;
    const nb::object opened = (*open)(place.epoch, place.document);
    if (opened.is_none()) return {};
    return [iterator = held(opened)]() -> std::optional<std::vector<std::int64_t>> {
      const nb::gil_scoped_acquire here;
      const nb::object next = nb::steal(PyIter_Next(iterator->ptr()));
      if (!next.is_valid()) {
        if (PyErr_Occurred() != nullptr) throw nb::python_error();
        return std::nullopt;
      }
      const auto document = nb::cast<Document>(next);
      return std::vector<std::int64_t>(document.data(), document.data() + document.size());
    };
  };
}

// Returns, for example, "ValueError: no more"; for the package's own errors the message. Needs the
// interpreter.
std::string words_of(const nb::python_error& error) noexcept {
  try {
    const nb::object words =
        nb::module_::import_("longspan.errors").attr("sentence_of")(error.value());
    return nb::cast<std::string>(words);
  } catch (...) {
    return "an exception";  // its message is unavailable
  }
}

// An exception of a callback ends training as a signal does, on all ranks, and is then rethrown.
struct Callback {
  nb::object on_step;
  std::exception_ptr raised = {};
  std::string told = {};  // its text: "ValueError: no more"

  void tell(const StepMetrics& metrics) noexcept {
    const nb::gil_scoped_acquire interpreter;
    try {
      on_step(json_line(record_of(metrics)));
    } catch (const nb::python_error& error) {
      raised = std::current_exception();
      told = words_of(error);
    } catch (...) {
      raised = std::current_exception();
      told = "an exception";
    }
  }
};

// Collective. Rethrows on the rank whose callback raised an exception; the others throw an error
// about it.
void raise_again(Callback& callback, const Communicator& world) {
  const std::vector<std::string> told = world.all_gather(callback.told);
  if (callback.raised) std::rethrow_exception(std::exchange(callback.raised, nullptr));
  for (std::size_t rank = 0; rank < told.size(); ++rank)
    if (!told[rank].empty())
      throw Failure(
          "rank {}: on_step raised {}; training stopped, checkpoint saved", rank, told[rank]);
}

// Reads a file; text that is not in a file is rank 0's.
ConfigurationText configuration_text(const std::string& file,
                                     const std::optional<std::string>& text,
                                     const std::vector<std::string>& settings,
                                     const Communicator& world) {
  if (!text) return read_configuration(file, settings, world);
  ConfigurationText source = {
      .file = file, .text = world.broadcast(*text, 0), .settings = settings};
  source.has_lines = false;
  const char* const home = std::getenv("HOME");
  const std::string shared = world.broadcast(std::string(home == nullptr ? "" : home), 0);
  if (!shared.empty()) source.home = shared;
  return source;
}

// As the program does on failure, writes the message to the log. longspan/session.py reports
// failures of another rank alone.
ExitCode train_and_log(Session& session,
                       const ConfigurationText& source,
                       const TrainingHooks& hooks) {
  session.set_listener({});
  try {
    const KeptHandlers handlers;
    const ExitCode code = longspan::train(session, source, hooks);
    session.set_listener({});  // a later failure is not this run's
    return code;
  } catch (const Error& error) {
    const bool is_stop = error.code() == ExitCode::stopped;
    if (session.world().rank() == 0 && !is_stop) session.tell(error.what());
    throw;
  } catch (const nb::python_error& error) {
    const nb::gil_scoped_acquire interpreter;
    if (session.world().rank() == 0) session.tell(words_of(error).c_str());
    throw;
  }
}

// Returns the run's directory.
std::string train(Session& session,
                  const std::string& file,
                  const std::optional<std::string>& text,
                  const std::vector<std::string>& settings,
                  const nb::object& documents,
                  const nb::object& on_step,
                  bool quiet) {
  Callback callback = {on_step};
  TrainingHooks hooks = {.documents = documents_of(documents), .is_quiet = quiet};
  if (!on_step.is_none()) {
    hooks.after_step = [&](const StepMetrics& metrics) {
      if (!callback.raised) callback.tell(metrics);
    };
    hooks.should_stop = [&] { return callback.raised != nullptr; };
  }
  const nb::gil_scoped_release others_run;
  const ConfigurationText source = configuration_text(file, text, settings, session.world());
  const std::string directory = configure(source)->run.directory.text();
  const ExitCode code = train_and_log(session, source, hooks);
  raise_again(callback, session.world());
  if (code == ExitCode::stopped)
    throw Error(ExitCode::stopped,
                directory + ": stopped as requested, checkpoint saved; call train again to resume");
  return directory;
}

}  // namespace

void bind_training(nb::module_& module) {
  module.def("train",
             &train,
             nb::arg("session"),
             nb::arg("file"),
             nb::arg("text").none(),
             nb::arg("settings"),
             nb::arg("documents").none(),
             nb::arg("on_step").none(),
             nb::arg("quiet"));
}

}  // namespace longspan::python
