// Weights that a new run takes from a checkpoint, on any layout.
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

// Every parameter as a whole, of a model of one process.
std::map<std::string, Values> whole_weights(const Model& model) {
  std::map<std::string, Values> all;
  for (const auto& parameter : model.parameters().all())
    all[parameter->name] = values_of(parameter->master);
  return all;
}

// What this rank has of them is what they are there.
void expect_weights(const Model& model, const std::map<std::string, Values>& wanted) {
  for (const StateTensor& piece : weights_state(model.parameters()).tensors) {
    const Values& whole = wanted.at(piece.name);
    const Values found = values_of(piece.tensor.clone());
    const Shape& shape = piece.tensor.shape();
    const std::int64_t width = piece.global_shape.elements() / piece.global_shape[0];
    const std::int64_t count = shape.elements() / shape[0];
    const std::int64_t column = piece.offset.size() > 1 ? piece.offset[1] : 0;
    ASSERT_EQ(std::ssize(whole), piece.global_shape.elements()) << piece.name;
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      const std::int64_t at = (piece.offset[0] + i / count) * width + column + i % count;
      ASSERT_EQ(found[static_cast<std::size_t>(i)], whole[static_cast<std::size_t>(at)])
          << piece.name << " " << at;
    }
  }
}

// The directory of a run that has saved one step on `mesh`; it goes with it.
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

// A new model of the kind, begun with the run's weights.
std::unique_ptr<Model> started(const Kind& kind,
                               const ProcessMesh& mesh,
                               const SavedRun& saved,
                               StartVocabulary vocabulary = StartVocabulary::same,
                               const std::vector<std::string>& anew = {}) {
  RunConfig settings;
  settings.training.start_from = {
      .path = saved.path().string(), .vocabulary = vocabulary, .anew = anew, .changed = {}};
  auto model = model_of(kind, mesh, 2);
  init_from({settings, {}, kind.tokenizer, {}, mesh.world, {}}, *model);
  return model;
}

const std::vector<MeshShape> layouts = {
    {}, {.data = 2}, {.tensor = 2}, {.data = 2, .tensor = 2}, {.tensor = 2, .sequence = true}};

TEST(StartFrom, TheWeightsAreTheCheckpointsToTheBit) {
  testing::for_each_layout(layouts, [](const ProcessMesh& mesh) {
    for (const bool tied : {true, false})
      for (const int zero : {0, 2}) {
        const Kind kind = {few, tied, DType::f64, zero};
        const SavedRun saved(kind, mesh);
        const auto wanted = whole_weights(*model_of(kind, {}, 1));
        expect_weights(*started(kind, mesh, saved), wanted);
        expect_weights(*started(kind, mesh, saved, StartVocabulary::grow), wanted);
      }
  });
}

// Rows by character, and the others as the seed draws them.
std::map<std::string, Values> grown(const Kind& to) {
  const auto old = whole_weights(*model_of({few, to.tied}, {}, 1));
  const auto drawn = whole_weights(*model_of({more, to.tied}, {}, 2));
  std::map<std::string, Values> wanted = old;
  for (const char* name : {"embedding/weight", "output/weight"}) {
    if (!old.contains(name)) continue;
    wanted[name] = drawn.at(name);
    const auto width = static_cast<std::ptrdiff_t>(drawn.at(name).size()) / more.vocabulary();
    for (const char32_t letter : std::u32string_view(U"abdfgikmoprs"))
      std::copy_n(old.at(name).begin() + few.id_of(letter) * width,
                  width,
                  wanted[name].begin() + more.id_of(letter) * width);
  }
  return wanted;
}

TEST(StartFrom, ALargerVocabularyTakesItsRowsByCharacter) {
  testing::for_each_layout(layouts, [](const ProcessMesh& mesh) {
    for (const bool tied : {true, false})
      for (const int zero : {0, 2}) {
        const SavedRun saved({few, tied}, mesh);
        const Kind kind = {more, tied, DType::f64, zero};
        expect_weights(*started(kind, mesh, saved, StartVocabulary::grow), grown(kind));
      }
  });
}

TEST(StartFrom, MastersOfTheOtherTypeAreConverted) {
  testing::for_each_layout({{}, {.data = 2}}, [](const ProcessMesh& mesh) {
    const SavedRun saved({few, true}, mesh);
    for (const int zero : {0, 1})
      for (const Tokenizer& tokenizer : {few, more}) {
        const Kind kind = {tokenizer, true, DType::bf16, zero};
        auto wanted =
            tokenizer == few ? whole_weights(*model_of({few, true}, {}, 1)) : grown({more, true});
        for (auto& [name, values] : wanted)
          for (double& value : values) value = static_cast<float>(value);
        const auto model = started(kind, mesh, saved, StartVocabulary::grow);
        expect_weights(*model, wanted);
        for (const auto& parameter : model->parameters().all()) {
          if (parameter->compute.dtype() != DType::bf16) continue;
          const Values compute = values_of(parameter->compute);
          for (std::size_t i = 0; i < compute.size(); ++i)
            ASSERT_EQ(compute[i],
                      static_cast<double>(static_cast<float>(
                          BFloat16(static_cast<float>(wanted.at(parameter->name)[i])))))
                << parameter->name;
        }
      }
  });
}

TEST(StartFrom, WhatIsBegunAnewIsDrawnFromTheSeed) {
  testing::for_each_layout({{}, {.data = 2, .tensor = 2}}, [](const ProcessMesh& mesh) {
    const SavedRun saved({few, true}, mesh);
    const Kind untied = {few, false};
    auto wanted = whole_weights(*model_of({few, true}, {}, 1));
    wanted["output/weight"] = whole_weights(*model_of(untied, {}, 2)).at("output/weight");
    expect_weights(*started(untied, mesh, saved, StartVocabulary::same, {"output"}), wanted);
    const std::string sentence =
        sentence_of<ConfigurationError>([&] { started(untied, mesh, saved); });
    EXPECT_NE(sentence.find(" has no output/weight; add them"), std::string::npos) << sentence;
    // Of another vocabulary nothing is read where nothing of it is taken.
    const Kind other = {more, true};
    auto drawn = whole_weights(*model_of({few, true}, {}, 1));
    drawn["embedding/weight"] = whole_weights(*model_of(other, {}, 2)).at("embedding/weight");
    expect_weights(*started(other, mesh, saved, StartVocabulary::same, {"embedding"}), drawn);
  });
}

TEST(StartFrom, LayersThatTheModelLacksAreLeftOut) {
  testing::for_each_layout({{}, {.tensor = 2}}, [](const ProcessMesh& mesh) {
    const SavedRun saved({few, true}, mesh);
    const Kind shallow = {.tokenizer = few, .layers = 1};
    expect_weights(*started(shallow, mesh, saved), whole_weights(*model_of({few, true}, {}, 1)));
    const Kind deep = {.tokenizer = few, .layers = 3};
    EXPECT_THROW(started(deep, mesh, saved), ConfigurationError);
    auto wanted = whole_weights(*model_of(deep, {}, 2));
    for (auto& [name, values] : whole_weights(*model_of({few, true}, {}, 1))) wanted[name] = values;
    expect_weights(*started(deep, mesh, saved, StartVocabulary::same, {"layers/2"}), wanted);
  });
}

}  // namespace
}  // namespace longspan::init_from_mesh_test
