// Normalisations.

#include <algorithm>
#include <cmath>
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

NormArgs part_args(const NormKernels::RmsNormPart& part) {
  NormArgs args = norm_args(part.x_TD);
  args.dy = part.dy_TD.data();
  args.gain = part.gain_D.data();
  args.rstd = const_cast<float*>(part.rstd_T.as<float>());  // read only by backward
  args.whole_width = part.width;
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
  const RmsNormPart whole{.dy_TD = dy_TD, .x_TD = x_TD, .gain_D = gain_D, .rstd_T = rstd_T, .width = x_TD.size(1)};
  rms_backward(kernels_.norm.rms_backward[element(x_TD)], whole, {}, dx_TD, write, dgain_D);
}

void CpuBackend::rms_norm_backward_apply(const RmsNormPart& part, ConstView dots_T, View dx_TD, Write write, View dgain_D) {
  rms_backward(kernels_.norm.rms_backward_apply[element(part.x_TD)], part, dots_T, dx_TD, write, dgain_D);
}

/// `kernel` over the rows, and the gain's gradient from its parts.
void CpuBackend::rms_backward(void (*kernel)(const NormArgs&, Index, Index), const RmsNormPart& part, ConstView dots_T, View dx_TD, Write write, View dgain_D) {
  const Index T = part.x_TD.size(0), D = part.x_TD.size(1), num_blocks = ceil_div(T, kGainBlock);
  if (T == 0) return;
  auto* partial_BD = reinterpret_cast<float*>(shared_scratch((num_blocks + 1) * D * 4));
  parallel_ranges(threads_, num_blocks, 1, [&](Index first, Index last) {
    NormArgs args = part_args(part);
    if (dots_T.exists()) args.sums = const_cast<float*>(dots_T.as<float>());  // read only here
    args.dx = dx_TD.data();
    args.accumulate = write == Write::kAccumulate;
    for (Index block = first; block < last; ++block) {
      args.dgain_partial = partial_BD + block * D;
      std::memset(args.dgain_partial, 0, static_cast<std::size_t>(D) * 4);
      kernel(args, block * kGainBlock, std::min(T, (block + 1) * kGainBlock));
    }
  });
  float* sums_D = partial_BD;
  for (Index block = 1; block < num_blocks; ++block) kernels_.misc.add_into[0][0](partial_BD + block * D, sums_D, D);
  kernels_.misc.add_into[0][element(dgain_D)](sums_D, dgain_D.data(), D);
}

void CpuBackend::row_sum_squares(ConstView x_TD, View sums_T) {
  NormArgs args = norm_args(x_TD);
  args.sums = sums_T.as<float>();
  parallel_ranges(threads_, x_TD.size(0), kRowGrain, [&](Index begin, Index end) { kernels_.norm.row_squares[element(x_TD)](args, begin, end); });
}

void CpuBackend::rms_norm_rstd(ConstView sums_T, Index width, double eps, View rstd_T) {
  const auto* sums = sums_T.as<float>();
  auto* rstd = rstd_T.as<float>();
  for (Index t = 0; t < sums_T.count(); ++t) rstd[t] = 1.0F / std::sqrt(sums[t] / static_cast<float>(width) + static_cast<float>(eps));
}

void CpuBackend::rms_norm_apply(ConstView x_TD, ConstView gain_D, ConstView rstd_T, View y_TD) {
  NormArgs args = norm_args(x_TD);
  args.gain = gain_D.data();
  args.rstd = const_cast<float*>(rstd_T.as<float>());  // read only here
  args.y = y_TD.data();
  parallel_ranges(threads_, x_TD.size(0), kRowGrain, [&](Index begin, Index end) { kernels_.norm.rms_apply[element(x_TD)](args, begin, end); });
}

void CpuBackend::rms_norm_dots(const RmsNormPart& part, View dots_T) {
  NormArgs args = part_args(part);
  args.sums = dots_T.as<float>();
  parallel_ranges(threads_, part.x_TD.size(0), kRowGrain, [&](Index begin, Index end) { kernels_.norm.rms_dots[element(part.x_TD)](args, begin, end); });
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
