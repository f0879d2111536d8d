#include "framework/autograd/saved_tensor.h"

#include "framework/autograd/ops.h"
#include "tests/support/gradient_check.h"

namespace longspan::saved_tensor_test {
namespace {

using testing::random_tensor;

TEST(SavedTensor, RecomputesOnceForAllUses) {
  const Tensor value = random_tensor({3, 4}, 1);
  const auto gradients = [&](bool again, int& made) {
    const Variable x = Variable::leaf(value.clone());
    const Variable first = Variable::leaf(random_tensor({2, 4}, 2));
    const Variable second = Variable::leaf(random_tensor({2, 4}, 3));
    Variable y = add(x, x);
    if (again)
      set_recompute(y, [x = x.value(), &made] {
        ++made;
        return add(Variable(x), Variable(x)).value();
      });
    const Tensor held = y.value();
    const Variable z = add(linear(y, first, Variable()), linear(y, second, Variable()));
    EXPECT_TRUE(!again || held.has_use_count(2)) << "nobody keeps it but y and this test";
    y = Variable();
    backward({z}, {random_tensor({3, 2}, 4)});
    return std::vector<Tensor>{x.gradient(), first.gradient(), second.gradient()};
  };
  int made = 0;
  const std::vector<Tensor> expected = gradients(false, made);
  EXPECT_EQ(made, 0);
  const std::vector<Tensor> found = gradients(true, made);
  EXPECT_EQ(made, 1);
  for (std::size_t i = 0; i < expected.size(); ++i)
    for (std::int64_t j = 0; j < expected[i].elements(); ++j)
      EXPECT_EQ(found[i].data<double>()[j], expected[i].data<double>()[j]);
}

TEST(SavedTensor, StoresConstantUnchanged) {
  const Variable x(random_tensor({2, 2}, 1));
  set_recompute(x, [] { return Tensor(); });
  EXPECT_EQ(save_for_backward(x).get().bytes(), x.value().bytes());
}

}  // namespace
}  // namespace longspan::saved_tensor_test
