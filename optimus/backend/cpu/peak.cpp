// The arithmetic peak, measured.

#include <omp.h>

#include <algorithm>

#include "optimus/backend/cpu/backend_impl.hpp"
#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/base/timer.hpp"

namespace optimus {
namespace {

constexpr int kRounds = 16;
constexpr Index kIterations = 200000;  // about 6 ms

}  // namespace

double measure_peak(DType dtype, int threads) {
  const auto peak = cpu::kernels_of(cpu::detect_isa()).misc.peak[cpu::element(dtype)];
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    double operations = 0;
    float sink = 0;
    const Timer timer;
#pragma omp parallel num_threads(threads) reduction(+ : operations, sink)
    operations += peak(kIterations, &sink);
    best = std::max(best, operations / timer.seconds() + 0.0 * static_cast<double>(sink));
  }
  return best;
}

}  // namespace optimus
