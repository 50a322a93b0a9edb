#pragma once
// The single-threaded inner loops, as tables of function pointers: one table for each instruction set, chosen once at run time. Arguments are plain structs
// of pointers; ranges [begin, end) are what one thread does. [2] is indexed by element type: 0 f32, 1 bf16.
//
// Plain data only: this header is compiled with every instruction set.

#include <cstdint>

namespace optimus::cpu {

using Index = std::int64_t;

/// One side of a product. Entry (row, k) of the side is at data[row * ld + k] if k_contiguous, else at data[k * ld + row].
struct GemmSide {
  const void* data;
  Index ld;
  bool k_contiguous;
};
/// c[m, n] (+)= sum_k a(m, k) * b(n, k)
struct GemmTask {
  GemmSide a, b;
  void* c;
  Index ldc, m, n, k;
  bool is_c_bf16, accumulate;
};
struct GemmTable {
  /// [0] f32 x f32, [1] bf16 x bf16, [2] f32 x bf16. `scratch`: scratch_bytes, aligned to 64.
  void (*run[3])(const GemmTask& task, void* scratch);
  Index scratch_bytes;
  Index max_cols;       ///< n of one task at most this
  Index max_rows_deep;  ///< m of one task at most this if k > max_depth
  Index max_depth[3];   ///< k that is summed in one pass
};

struct NormArgs {
  const void *dy, *x, *gain;
  void *y, *dx;
  float *mean, *rstd, *dgain_partial;  ///< dgain_partial: [D], added to
  float* sums;                         ///< [T], of squares or of products
  Index width, whole_width;            ///< of the part of a row that is here, and of all of it
  float eps;
  bool accumulate;
};
struct NormTable {
  void (*rms_forward[2])(const NormArgs&, Index begin, Index end);
  void (*rms_backward[2])(const NormArgs&, Index begin, Index end);
  void (*row_squares[2])(const NormArgs&, Index begin, Index end);
  void (*rms_apply[2])(const NormArgs&, Index begin, Index end);
  void (*rms_dots[2])(const NormArgs&, Index begin, Index end);
  void (*rms_backward_apply[2])(const NormArgs&, Index begin, Index end);
  void (*layer_forward[2])(const NormArgs&, Index begin, Index end);
  void (*layer_backward[2])(const NormArgs&, Index begin, Index end);
};

struct RopeArgs {
  void* x;
  const std::int32_t* positions;
  const float *cos, *sin;
  Index num_heads, half;
  float sign;  ///< -1 rotates back
};
struct AttentionArgs {
  Index batch, queries, keys, heads, kv_heads, head_size;
  const void *q, *k, *v, *o, *d_o;
  const std::int32_t* document_start;  ///< or null
  void *out, *dq, *dk, *dv;
  float* lse;
  const float* saved_lse;
};
struct AttentionForwardTable {
  /// Queries [begin, end) (at most query_block) of head `head` of sequence `batch`.
  void (*run[2])(const AttentionArgs&, Index batch, Index head, Index begin, Index end, void* scratch);
  Index (*scratch_bytes)(Index keys, Index head_size);
  Index query_block;
};
struct AttentionBackwardTable {
  /// All queries of the heads that share key/value head `kv_head`.
  void (*run[2])(const AttentionArgs&, Index batch, Index kv_head, void* scratch);
  Index (*scratch_bytes)(Index keys, Index head_size);
};

struct CrossEntropyArgs {
  const void* logits;
  const std::int32_t* labels;
  float *max, *sum, *target;
  const float* lse;
  void* dlogits;
  Index width, vocab_begin;
  float scale;
};
struct LossTable {
  void (*statistics[2])(const CrossEntropyArgs&, Index begin, Index end);
  void (*gradient[2][2])(const CrossEntropyArgs&, Index begin, Index end);  ///< [logits][dlogits]
  void (*argmax[2])(const void* logits, Index width, std::int32_t* index, Index begin, Index end);
};

struct RouterArgs {
  const float *logits, *p, *lse, *weight, *dweight, *dp;
  const std::int32_t* index;
  float *p_out, *lse_out, *dlogits, *row_scratch;  ///< row_scratch: [E] of this thread
  std::int32_t* index_out;
  Index experts, choices, rows_per_group;
  float z_scale;
  bool normalise;
};
struct CombineArgs {
  const void* rows;
  const float* weight;  ///< [T, K], or null for 1
  const std::int64_t* row_offsets;
  const std::int32_t *output_indices, *selected_k;
  void* out;
  Index width, choices;
  bool accumulate;
};
struct SwigluArgs {
  const void *dact, *gate, *up;
  const float* weight;
  void *act, *dgate, *dup, *weighted_act;
  float* dweight;
  Index width;
};
struct MoeTable {
  void (*softmax)(const RouterArgs&, Index begin, Index end);
  void (*top_k)(const RouterArgs&, Index begin, Index end);
  void (*router_backward)(const RouterArgs&, Index begin, Index end);
  void (*combine[2])(const CombineArgs&, Index begin, Index end);
  void (*swiglu_forward[2])(const SwigluArgs&, Index begin, Index end);          ///< elements
  void (*swiglu_backward[2])(const SwigluArgs&, Index begin, Index end);         ///< elements
  void (*expert_swiglu_backward[2])(const SwigluArgs&, Index begin, Index end);  ///< rows
};

struct AdamWArgs {
  const void* gradient;
  float *master, *exp_avg, *exp_avg_sq;
  void* weight;
  float gradient_scale, beta1, beta2, one_minus_beta1, one_minus_beta2, keep, step_size, inverse_sqrt_correction2, eps;
};
struct UpdateTable {
  void (*adamw[2][2])(const AdamWArgs&, Index begin, Index end);  ///< [gradient][weight]
  void (*sgd[2][2])(const AdamWArgs&, Index begin, Index end);    ///< uses keep, step_size
  double (*sum_squares[2])(const void* x, Index count);
};

struct MiscTable {
  void (*add[2])(const void* a, const void* b, void* out, Index begin, Index end);
  void (*add_into[2][2])(const void* a, void* out, Index count);  ///< out += a, [type of a][type of out]
  void (*clamp_forward[2])(const void* x, float limit, void* y, Index begin, Index end);
  void (*clamp_backward[2])(const void* dy, const void* x, float limit, void* dx, Index begin, Index end);
  void (*to_bf16)(const float* in, void* out, Index begin, Index end);
  void (*to_f32)(const void* in, float* out, Index begin, Index end);
  void (*rope[2])(const RopeArgs&, Index begin, Index end);
  /// GFLOP/s-like rate of the multiply-add of [0] f32, [1] bf16: runs `iterations` rounds, returns the operations done; `sink` keeps it from vanishing.
  double (*peak[2])(Index iterations, float* sink);
};

/// Everything one instruction set offers.
struct KernelTable {
  const char* name;
  GemmTable gemm;
  NormTable norm;
  AttentionForwardTable attention_forward;
  AttentionBackwardTable attention_backward;
  LossTable loss;
  MoeTable moe;
  UpdateTable update;
  MiscTable misc;
};

}  // namespace optimus::cpu
