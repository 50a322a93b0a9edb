// Attention and rotary positions.

#include <cmath>

#include "optimus/backend/cpu/backend_impl.hpp"
#include "optimus/backend/cpu/parallel.hpp"

namespace optimus::cpu {
namespace {

AttentionArgs attention_args(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, ConstView document_start) {
  AttentionArgs args{};
  args.batch = shape.batch;
  args.queries = shape.queries;
  args.keys = shape.keys;
  args.heads = shape.heads;
  args.kv_heads = shape.kv_heads;
  args.head_size = shape.head_size;
  args.q = q.data();
  args.k = k.data();
  args.v = v.data();
  args.document_start = document_start.exists() ? document_start.as<std::int32_t>() : nullptr;
  return args;
}

constexpr Index kElementGrain = 16384;

}  // namespace

void CpuBackend::reserve_attention(const AttentionShape& shape, DType) {
  reserve_thread_scratch(kernels_.attention_forward.scratch_bytes(shape.keys, shape.head_size));
  reserve_thread_scratch(kernels_.attention_backward.scratch_bytes(shape.keys, shape.head_size));
}

void CpuBackend::attention_forward(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, ConstView document_start, View o, View lse) {
  reserve_thread_scratch(kernels_.attention_forward.scratch_bytes(shape.keys, shape.head_size));
  AttentionArgs args = attention_args(shape, q, k, v, document_start);
  args.out = o.data();
  args.lse = lse.as<float>();
  const Index query_block = kernels_.attention_forward.query_block, num_blocks = ceil_div(shape.queries, query_block), pairs = shape.batch * shape.heads;
  parallel_items(threads_, num_blocks * pairs, [&](Index item, int thread) {
    // Late queries see most keys: they go first.
    const Index block = num_blocks - 1 - item / pairs, pair = item % pairs, begin = block * query_block;
    kernels_.attention_forward.run[element(q)](args, pair / shape.heads, pair % shape.heads, begin, std::min(shape.queries, begin + query_block),
                                               thread_scratch(thread));
  });
}

void CpuBackend::attention_backward(const AttentionShape& shape, ConstView d_o, const AttentionSaved& saved, const AttentionGradients& gradients) {
  reserve_thread_scratch(kernels_.attention_backward.scratch_bytes(shape.keys, shape.head_size));
  AttentionArgs args = attention_args(shape, saved.q, saved.k, saved.v, saved.document_start);
  args.d_o = d_o.data();
  args.o = saved.o.data();
  args.saved_lse = saved.lse.as<float>();
  args.dq = gradients.dq.data();
  args.dk = gradients.dk.data();
  args.dv = gradients.dv.data();
  parallel_items(threads_, shape.batch * shape.kv_heads, [&](Index item, int thread) {
    kernels_.attention_backward.run[element(saved.q)](args, item / shape.kv_heads, item % shape.kv_heads, thread_scratch(thread));
  });
}

void CpuBackend::rope(View x, ConstView positions_T, ConstView cos, ConstView sin, Index head_size, bool is_backward) {
  const Index num_rows = positions_T.count();
  if (num_rows == 0 || head_size == 0) return;
  const RopeArgs args{x.data(),      positions_T.as<std::int32_t>(), cos.as<float>(), sin.as<float>(), x.count() / num_rows / head_size,
                      head_size / 2, is_backward ? -1.0F : 1.0F};
  parallel_ranges(threads_, num_rows, 16, [&](Index begin, Index end) { kernels_.misc.rope[element(x)](args, begin, end); });
}

void CpuBackend::clamp_forward(ConstView x, double limit, View y) {
  const auto bound = static_cast<float>(limit);
  parallel_ranges(threads_, x.count(), kElementGrain,
                  [&](Index begin, Index end) { kernels_.misc.clamp_forward[element(x)](x.data(), bound, y.data(), begin, end); });
}

void CpuBackend::clamp_backward(ConstView dy, ConstView x, double limit, View dx) {
  const auto bound = static_cast<float>(limit);
  parallel_ranges(threads_, x.count(), kElementGrain,
                  [&](Index begin, Index end) { kernels_.misc.clamp_backward[element(x)](dy.data(), x.data(), bound, dx.data(), begin, end); });
}

}  // namespace optimus::cpu
