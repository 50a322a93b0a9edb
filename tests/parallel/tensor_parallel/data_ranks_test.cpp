// Data ranks alone: nothing of the model is shared, so what the tests put together must be exactly what one rank makes of all rows.

#include <gtest/gtest.h>

#include "tests/support/mpi/mpi_world.hpp"
#include "tests/support/split_model.hpp"

namespace optimus {
namespace {

TEST(DataRanks, TogetherGiveTheGradientsOfOneRank) {
  for (const ModelConfig& model : {test::small_moe(), test::small_dense()}) {
    const TransformerOptions options{
        .model = model, .moe = {}, .recompute = {}, .weights = DType::kF64, .gradients = DType::kF64, .micro_batch = 2, .sequence_length = 5};
    const test::Rows rows = test::random_rows(model, 2 * test::world().size(), 5);
    test::expect_as_on_one_rank(options, {}, rows, test::scale_of(rows, 0.5, 0.1), "ref", 1e-13);
  }
}

}  // namespace
}  // namespace optimus
