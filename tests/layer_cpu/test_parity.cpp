// The CPU layer against the reference, over the whole case table.
#include <gtest/gtest.h>

#include <cstdio>

#include "parity/compare.h"

namespace megaflux {
namespace {

class Parity : public testing::TestWithParam<LayerCase> {};

TEST_P(Parity, MatchesTheReference) {
  const StepData data(GetParam(), 11);
  const Plan plan = plan_of(data, 5);
  CpuRig rig(data);
  const StepOutput out = rig.step(plan);
  const ReferenceOutput expected = reference_output(data.problem(), plan);
  const Errors errors = errors_of(data, out, expected);
  EXPECT_LE(errors.y, output_tolerance(data.shape())) << "y";
  const double limit = gradient_tolerance(data.shape());
  EXPECT_LE(errors.dx, limit) << "dX";
  EXPECT_LE(errors.dp, limit) << "dp";
  EXPECT_LE(errors.w1, limit) << "dW1";
  EXPECT_LE(errors.w2, limit) << "dW2";
  EXPECT_LE(errors.b1, limit) << "db1";
  EXPECT_LE(errors.b2, limit) << "db2";
  const bool has_rows = data.loads().total_rows() > 0;
  if (has_rows && data.shape().dtype == DType::kBf16 && data.shape().hidden > 1) {
    EXPECT_GT(errors.y, 0) << "an error of exactly 0 means that nothing was computed in bf16";
  }
}

TEST_P(Parity, PlainLoopsMatchTheReference) {
  const StepData data(GetParam(), 12);
  const Plan plan = plan_of(data, 6);
  CpuRig rig(data, {.gemm = GemmBackend::kPlainLoops});
  const Errors errors = errors_of(data, rig.step(plan), reference_output(data.problem(), plan));
  EXPECT_LE(errors.y, output_tolerance(data.shape()));
  EXPECT_LE(errors.worst_gradient(), gradient_tolerance(data.shape()));
}

INSTANTIATE_TEST_SUITE_P(Cases, Parity, testing::ValuesIn(case_table()),
                         [](const auto& named) { return named.param.name; });

TEST(CaseTable, EveryAxisValueOccurs) {
  for (const auto& [axis, counts] : axis_coverage()) {
    std::printf("%-18s", axis.c_str());
    for (const auto& [value, count] : counts) {
      std::printf(" %s:%d", value.c_str(), count);
      EXPECT_GT(count, 0) << axis << " = " << value << " occurs in no case";
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace megaflux
