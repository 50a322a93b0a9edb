// Choice of the instruction set, the measured peak, and arguments a user may get wrong.
#include "optimus/backend/cpu/isa.hpp"

#include <gtest/gtest.h>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/base/error.hpp"

namespace optimus {
namespace {

TEST(Isa, ALimitLowersTheChoice) {
  EXPECT_EQ(cpu::detect_isa("SSE41"), cpu::Isa::kBaseline);
  EXPECT_LE(cpu::detect_isa("AVX2"), cpu::Isa::kAvx2);
  EXPECT_LE(cpu::detect_isa("avx512_core"), cpu::Isa::kAvx512);
  EXPECT_EQ(cpu::detect_isa("ALL"), cpu::detect_isa(""));
}

TEST(Isa, RefusesALimitThatNamesNothing) {
  try {
    (void)cpu::detect_isa("AVX3");
    FAIL() << "was accepted";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("\"AVX3\""), std::string::npos) << error.what();
  }
}

TEST(CpuBackend, RefusesToRunOnNoThreads) { EXPECT_THROW((void)make_cpu_backend(0), ConfigError); }

TEST(CpuBackend, SaysWhatItRunsOn) { EXPECT_NE(make_cpu_backend(3)->description().find("3 threads"), std::string::npos); }

TEST(CpuBackend, ComputesOnTwoTypes) {
  const auto backend = make_cpu_backend(1);
  EXPECT_TRUE(backend->supports(DType::kF32));
  EXPECT_TRUE(backend->supports(DType::kBF16));
  EXPECT_FALSE(backend->supports(DType::kF64));
}

TEST(MeasurePeak, IsNotBelowASlowProcessor) {
  EXPECT_GT(measure_peak(DType::kF32, 1), 1e8);
  EXPECT_GT(measure_peak(DType::kBF16, 2), 1e8);
  EXPECT_THROW((void)measure_peak(DType::kF64, 1), UnsupportedError);
}

}  // namespace
}  // namespace optimus
