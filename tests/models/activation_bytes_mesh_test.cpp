// Peak activation bytes per rank in a training pass with context and sequence parallelism.
#include <fmt/format.h>

#include "framework/autograd/ops.h"
#include "tests/models/model_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::activation_bytes_mesh_test {
namespace {

using testing::backend_device;

// Long enough that the relative-position keys, which every rank holds, are a small part.
constexpr std::int64_t streams = 3;
constexpr std::int64_t segment = 512;

// Peak bytes of the forward and backward pass of the second segment.
template <typename Make>
double peak_bytes(const ProcessMesh& mesh, std::int64_t memory, const Make& make) {
  const ModelBuildOptions setting = {.vocabulary = testing::vocabulary,
                                     .segment = segment,
                                     .compute = DType::f32,
                                     .device = backend_device(),
                                     .mesh = mesh,
                                     .random = Random(1)};
  const auto model = make(setting);
  const Tensor text = testing::random_ids(streams, 2 * segment + 1, 3);
  RecurrentState remembered;
  const auto run = [&](std::int64_t begin) {
    const Losses result = model->losses(
        testing::segment_of(text, begin, segment, remembered, memory), {.training = true});
    remembered = result.carried;
    backward(sum(testing::loss_values(result)));
  };
  run(0);
  Allocator& allocator = backend_device().allocator();
  allocator.reset_peak();
  const auto activations = [&] {
    return allocator.report().by_tag[static_cast<std::size_t>(MemoryTag::activations)];
  };
  const std::int64_t before = activations().live;
  run(segment);
  return static_cast<double>(activations().peak - before);
}

ModelOptions options() {
  return {.layers = 4, .width = 64, .heads = 4, .dropout = 0.1, .attention_dropout = 0.1};
}

double decoder_bytes(const ProcessMesh& mesh) {
  return peak_bytes(mesh, 0, [](const ModelBuildOptions& setting) {
    DecoderOptions decoder;
    decoder.common = options();
    return make_decoder(decoder, setting);
  });
}

double transformer_xl_bytes(const ProcessMesh& mesh) {
  return peak_bytes(mesh, segment, [](const ModelBuildOptions& setting) {
    TransformerXlOptions transformer_xl;
    transformer_xl.common = options();
    transformer_xl.memory = segment;
    return make_transformer_xl(transformer_xl, setting);
  });
}

void print(const ProcessMesh& mesh, const char* model, double ratio) {
  if (mesh.world.rank() != 0) return;
  fmt::print("activation bytes of {} on {}: {:.3f} of one process's\n",
             model,
             testing::to_string(mesh.shape),
             ratio);
}

// Peak bytes on one process. Collective: a rank measures, the others receive the result.
template <typename Measure>
double on_one_process(const Measure& measure) {
  const double own = testing::world().rank() == 0 ? measure(ProcessMesh()) : 0;
  return testing::world().all_reduce(own, Reduction::maximum);
}

TEST(ActivationBytes, DecreaseWithContextRanks) {
  const double one = on_one_process(decoder_bytes);
  const double one_with_memory = on_one_process(transformer_xl_bytes);
  testing::for_each_layout({{.context = 2}, {.context = 4}}, [&](const ProcessMesh& mesh) {
    const double ratio = decoder_bytes(mesh) / one;
    print(mesh, "the decoder", ratio);
    const double most = mesh.shape.context == 2 ? 0.55 : 0.30;
    EXPECT_LE(ratio, most);
    // Every context rank holds all relative-position keys.
    const double with_memory = transformer_xl_bytes(mesh) / one_with_memory;
    print(mesh, "Transformer-XL", with_memory);
    EXPECT_LE(with_memory, most);
  });
}

TEST(ActivationBytes, SequenceParallelismShardsActivationsOutsideRegions) {
  const double one = on_one_process(decoder_bytes);
  testing::for_each_layout({{.tensor = 2}, {.tensor = 4}}, [&](const ProcessMesh& mesh) {
    const MeshShape shape = {.tensor = mesh.shape.tensor, .sequence = true};
    const ProcessMesh sharing(mesh.world, shape);
    const double plain = decoder_bytes(mesh) / one;
    const double ratio = decoder_bytes(sharing) / one;
    print(mesh, "the decoder", plain);
    print(sharing, "the decoder", ratio);
    EXPECT_LE(ratio, mesh.shape.tensor == 2 ? 0.55 : 0.3);
    EXPECT_GE(plain, mesh.shape.tensor == 2 ? 0.6 : 0.4) << "what there is to save";
  });
}

}  // namespace
}  // namespace longspan::activation_bytes_mesh_test
