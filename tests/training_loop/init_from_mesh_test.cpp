// Initialization of a new run from a checkpoint, on every mesh layout.
#include <cstdlib>
#include <filesystem>
#include <map>

#include "framework/optim/parameter_state.h"
#include "framework/training_loop/init_from.h"
#include "framework/training_loop/loading.h"
#include "tests/data/temporary_file.h"
#include "tests/models/model_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::init_from_mesh_test {
namespace {

namespace fs = std::filesystem;
using testing::Values;
using testing::values_of;

const Tokenizer few = Tokenizer::characters(std::u32string_view(U"abdfgikmoprs"), false);
const Tokenizer more = Tokenizer::characters(std::u32string_view(U"abcdefghijkmnopqrs"), false);

struct Kind {
  const Tokenizer& tokenizer;
  bool tied = true;
  DType compute = DType::f64;
  int zero = 0;
  std::int64_t layers = 2;
};

std::unique_ptr<Model> model_of(const Kind& kind, const ProcessMesh& mesh, std::uint64_t seed) {
  DecoderOptions options;
  options.common = testing::tiny_options();
  options.common.layers = kind.layers;
  options.common.tied_embeddings = kind.tied;
  ModelBuildOptions setting = testing::tiny_setting();
  setting.vocabulary = kind.tokenizer.vocabulary();
  setting.compute = kind.compute;
  setting.mesh = mesh;
  setting.random = Random(seed);
  setting.sharing = {.zero = kind.zero, .bucket_megabytes = 0.001};
  return make_decoder(options, setting);
}

// Full parameters by name, from a model of one process.
std::map<std::string, Values> full_weights(const Model& model) {
  std::map<std::string, Values> all;
  for (const auto& parameter : model.parameters().all())
    all[parameter->name] = values_of(parameter->master);
  return all;
}

// Checks that this rank's shards equal the corresponding parts of `expected`.
void expect_weights(const Model& model, const std::map<std::string, Values>& expected) {
  for (const StateTensor& piece : weights_state(model.parameters()).tensors) {
    const Values& full = expected.at(piece.name);
    const Values found = values_of(piece.tensor.clone());
    const Shape& shape = piece.tensor.shape();
    const std::int64_t width = piece.global_shape.elements() / piece.global_shape[0];
    const std::int64_t count = shape.elements() / shape[0];
    const std::int64_t column = piece.offset.size() > 1 ? piece.offset[1] : 0;
    ASSERT_EQ(std::ssize(full), piece.global_shape.elements()) << piece.name;
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      const std::int64_t at = (piece.offset[0] + i / count) * width + column + i % count;
      ASSERT_EQ(found[static_cast<std::size_t>(i)], full[static_cast<std::size_t>(at)])
          << piece.name << " " << at;
    }
  }
}

// The directory of a run that has saved one step on `mesh`. The destructor removes it.
class SavedRun {
 public:
  SavedRun(const Kind& kind, const ProcessMesh& mesh) : mesh_(mesh) {
    std::string name;
    if (mesh.world.rank() == 0) {
      name = (fs::temp_directory_path() / "longspan-start-XXXXXX").string();
      require(::mkdtemp(name.data()) != nullptr, "no directory for {}", name);
    }
    path_ = mesh.world.broadcast(name, 0);
    TrainingState state = weights_state(model_of(kind, mesh, 1)->parameters());
    state.scalars.set(tokenizer_scalar, kind.tokenizer.to_json());
    CheckpointInfo info;
    info.step = 7;
    info.layout = mesh.shape;
    save_checkpoint(path_ / "checkpoints", info, state, mesh.world);
  }
  ~SavedRun() {
    mesh_.world.barrier();
    if (mesh_.world.rank() == 0) fs::remove_all(path_);
  }
  const fs::path& path() const { return path_; }

 private:
  ProcessMesh mesh_;
  fs::path path_;
};

// A new model of the kind, initialized with the run's weights.
std::unique_ptr<Model> started(const Kind& kind,
                               const ProcessMesh& mesh,
                               const SavedRun& saved,
                               bool resize_vocab = false,
                               const std::vector<std::string>& fresh = {}) {
  RunConfig settings;
  settings.training.start_from = {.path = saved.path().string(),
                                  .resize_vocab = resize_vocab,
                                  .reinitialize = fresh,
                                  .changed = {}};
  auto model = model_of(kind, mesh, 2);
  init_from({settings, {}, kind.tokenizer, {}, mesh.world, {}}, *model);
  return model;
}

const std::vector<MeshShape> layouts = {
    {}, {.data = 2}, {.tensor = 2}, {.data = 2, .tensor = 2}, {.tensor = 2, .sequence = true}};

TEST(InitFrom, WeightsEqualCheckpointBitForBit) {
  testing::for_each_layout(layouts, [](const ProcessMesh& mesh) {
    for (const bool tied : {true, false})
      for (const int zero : {0, 2}) {
        const Kind kind = {few, tied, DType::f64, zero};
        const SavedRun saved(kind, mesh);
        const auto expected = full_weights(*model_of(kind, {}, 1));
        expect_weights(*started(kind, mesh, saved), expected);
        expect_weights(*started(kind, mesh, saved, true), expected);
      }
  });
}

// Old rows are matched by character; new rows are drawn from the seed.
std::map<std::string, Values> grown(const Kind& to) {
  const auto old = full_weights(*model_of({few, to.tied}, {}, 1));
  const auto drawn = full_weights(*model_of({more, to.tied}, {}, 2));
  std::map<std::string, Values> expected = old;
  for (const char* name : {"embedding/weight", "output/weight"}) {
    if (!old.contains(name)) continue;
    expected[name] = drawn.at(name);
    const auto width = static_cast<std::ptrdiff_t>(drawn.at(name).size()) / more.vocabulary();
    for (const char32_t letter : std::u32string_view(U"abdfgikmoprs"))
      std::copy_n(old.at(name).begin() + few.id_of(letter) * width,
                  width,
                  expected[name].begin() + more.id_of(letter) * width);
  }
  return expected;
}

TEST(InitFrom, GrownVocabularyMatchesRowsByCharacter) {
  testing::for_each_layout(layouts, [](const ProcessMesh& mesh) {
    for (const bool tied : {true, false})
      for (const int zero : {0, 2}) {
        const SavedRun saved({few, tied}, mesh);
        const Kind kind = {more, tied, DType::f64, zero};
        expect_weights(*started(kind, mesh, saved, true), grown(kind));
      }
  });
}

TEST(InitFrom, ConvertsMasterWeightDtype) {
  testing::for_each_layout({{}, {.data = 2}}, [](const ProcessMesh& mesh) {
    const SavedRun saved({few, true}, mesh);
    for (const int zero : {0, 1})
      for (const Tokenizer& tokenizer : {few, more}) {
        const Kind kind = {tokenizer, true, DType::bf16, zero};
        auto expected =
            tokenizer == few ? full_weights(*model_of({few, true}, {}, 1)) : grown({more, true});
        for (auto& [name, values] : expected)
          for (double& value : values) value = static_cast<float>(value);
        const auto model = started(kind, mesh, saved, true);
        expect_weights(*model, expected);
        for (const auto& parameter : model->parameters().all()) {
          if (parameter->compute.dtype() != DType::bf16) continue;
          const Values compute = values_of(parameter->compute);
          for (std::size_t i = 0; i < compute.size(); ++i)
            ASSERT_EQ(compute[i],
                      static_cast<double>(static_cast<float>(
                          BFloat16(static_cast<float>(expected.at(parameter->name)[i])))))
                << parameter->name;
        }
      }
  });
}

TEST(InitFrom, DrawsListedParametersFromSeed) {
  testing::for_each_layout({{}, {.data = 2, .tensor = 2}}, [](const ProcessMesh& mesh) {
    const SavedRun saved({few, true}, mesh);
    const Kind untied = {few, false};
    auto expected = full_weights(*model_of({few, true}, {}, 1));
    expected["output/weight"] = full_weights(*model_of(untied, {}, 2)).at("output/weight");
    expect_weights(*started(untied, mesh, saved, false, {"output"}), expected);
    const std::string message =
        message_of<ConfigurationError>([&] { started(untied, mesh, saved); });
    EXPECT_NE(message.find(" has no output/weight; add them"), std::string::npos) << message;
    // A different vocabulary is allowed if no parameter with its rows is read.
    const Kind other = {more, true};
    auto drawn = full_weights(*model_of({few, true}, {}, 1));
    drawn["embedding/weight"] = full_weights(*model_of(other, {}, 2)).at("embedding/weight");
    expect_weights(*started(other, mesh, saved, false, {"embedding"}), drawn);
  });
}

TEST(InitFrom, IgnoresExtraLayersAndRejectsMissingOnes) {
  testing::for_each_layout({{}, {.tensor = 2}}, [](const ProcessMesh& mesh) {
    const SavedRun saved({few, true}, mesh);
    const Kind shallow = {.tokenizer = few, .layers = 1};
    expect_weights(*started(shallow, mesh, saved), full_weights(*model_of({few, true}, {}, 1)));
    const Kind deep = {.tokenizer = few, .layers = 3};
    EXPECT_THROW(started(deep, mesh, saved), ConfigurationError);
    auto expected = full_weights(*model_of(deep, {}, 2));
    for (auto& [name, values] : full_weights(*model_of({few, true}, {}, 1)))
      expected[name] = values;
    expect_weights(*started(deep, mesh, saved, false, {"layers/2"}), expected);
  });
}

}  // namespace
}  // namespace longspan::init_from_mesh_test
