// Normalisations.

#include <cstring>

#include "optimus/backend/cpu/backend_impl.hpp"
#include "optimus/backend/cpu/parallel.hpp"

namespace optimus::cpu {
namespace {

constexpr Index kRowGrain = 16;
/// Rows whose contributions to the gain's gradient are added up together: fixed, so the sum does not depend on the number of threads.
constexpr Index kGainBlock = 64;

NormArgs norm_args(ConstView x_TD) {
  NormArgs args{};
  args.x = x_TD.data();
  args.width = x_TD.size(1);
  return args;
}

}  // namespace

void CpuBackend::rms_norm_forward(ConstView x_TD, ConstView gain_D, double eps, View y_TD, View rstd_T) {
  NormArgs args = norm_args(x_TD);
  args.gain = gain_D.data();
  args.y = y_TD.data();
  args.rstd = rstd_T.as<float>();
  args.eps = static_cast<float>(eps);
  parallel_ranges(threads_, x_TD.size(0), kRowGrain, [&](Index begin, Index end) { kernels_.norm.rms_forward[element(x_TD)](args, begin, end); });
}

void CpuBackend::rms_norm_backward(ConstView dy_TD, ConstView x_TD, ConstView gain_D, ConstView rstd_T, View dx_TD, Write write, View dgain_D) {
  const Index T = x_TD.size(0), D = x_TD.size(1), num_blocks = ceil_div(T, kGainBlock);
  if (T == 0) return;
  auto* partial_BD = reinterpret_cast<float*>(shared_scratch((num_blocks + 1) * D * 4));
  parallel_ranges(threads_, num_blocks, 1, [&](Index first, Index last) {
    NormArgs args = norm_args(x_TD);
    args.dy = dy_TD.data();
    args.gain = gain_D.data();
    args.rstd = const_cast<float*>(rstd_T.as<float>());  // read only by backward
    args.dx = dx_TD.data();
    args.accumulate = write == Write::kAccumulate;
    for (Index block = first; block < last; ++block) {
      args.dgain_partial = partial_BD + block * D;
      std::memset(args.dgain_partial, 0, static_cast<std::size_t>(D) * 4);
      kernels_.norm.rms_backward[element(x_TD)](args, block * kGainBlock, std::min(T, (block + 1) * kGainBlock));
    }
  });
  float* sums_D = partial_BD;
  for (Index block = 1; block < num_blocks; ++block) kernels_.misc.add_into[0][0](partial_BD + block * D, sums_D, D);
  kernels_.misc.add_into[0][element(dgain_D)](sums_D, dgain_D.data(), D);
}

void CpuBackend::layer_norm_forward(ConstView x_TD, double eps, View y_TD, View mean_T, View rstd_T) {
  NormArgs args = norm_args(x_TD);
  args.y = y_TD.data();
  args.mean = mean_T.as<float>();
  args.rstd = rstd_T.as<float>();
  args.eps = static_cast<float>(eps);
  parallel_ranges(threads_, x_TD.size(0), kRowGrain, [&](Index begin, Index end) { kernels_.norm.layer_forward[element(x_TD)](args, begin, end); });
}

void CpuBackend::layer_norm_backward(ConstView dy_TD, ConstView x_TD, ConstView mean_T, ConstView rstd_T, View dx_TD, Write write) {
  NormArgs args = norm_args(x_TD);
  args.dy = dy_TD.data();
  args.mean = const_cast<float*>(mean_T.as<float>());  // both read only by backward
  args.rstd = const_cast<float*>(rstd_T.as<float>());
  args.dx = dx_TD.data();
  args.accumulate = write == Write::kAccumulate;
  parallel_ranges(threads_, x_TD.size(0), kRowGrain, [&](Index begin, Index end) { kernels_.norm.layer_backward[element(x_TD)](args, begin, end); });
}

}  // namespace optimus::cpu
