// Attention, query by query.

#include "optimus/backend/cpu/kernels/tables.hpp"

namespace optimus::cpu::OPTIMUS_ISA {
namespace {

template <class T> float dot(const T* a, const T* b, Index count) {
  F total{};
  for_vectors(count, [&](Index i, auto n) { total = fma(load(a + i, n), load(b + i, n), total); });
  return sum(total);
}

Index first_key(const AttentionArgs& a, Index batch, Index position) { return a.document_start != nullptr ? a.document_start[batch * a.keys + position] : 0; }

template <class T> void forward(const AttentionArgs& a, Index batch, Index head, Index begin, Index end, void* scratch) {
  const Index A = a.head_size, group = head / (a.heads / a.kv_heads), q_ld = a.heads * A, kv_ld = a.kv_heads * A;
  const T *k = static_cast<const T*>(a.k) + batch * a.keys * kv_ld + group * A, *v = static_cast<const T*>(a.v) + batch * a.keys * kv_ld + group * A;
  auto *s = static_cast<float*>(scratch), *o = s + a.keys;
  for (Index i = begin; i < end; ++i) {
    const Index position = a.keys - a.queries + i, first = first_key(a, batch, position);
    const T* q = static_cast<const T*>(a.q) + (batch * a.queries + i) * q_ld + head * A;
    float top = -__builtin_inff();
    for (Index j = first; j <= position; ++j) {
      s[j] = dot(q, k + j * kv_ld, A) / __builtin_sqrtf(static_cast<float>(A));
      top = s[j] > top ? s[j] : top;
    }
    F total{};
    for_vectors(position + 1 - first, [&](Index j, auto n) {
      const F p = keep(exp(load(s + first + j, n) - top), n, 0.0F);
      total += p;
      store(s + first + j, p, n);
    });
    const float denominator = sum(total);
    for_vectors(A, [&](Index d, auto n) { store(o + d, F{}, n); });
    for (Index j = first; j <= position; ++j)
      for_vectors(A, [&](Index d, auto n) { store(o + d, fma(load(v + j * kv_ld + d, n), splat(s[j] / denominator), load(o + d, n)), n); });
    T* out = static_cast<T*>(a.out) + (batch * a.queries + i) * q_ld + head * A;
    for_vectors(A, [&](Index d, auto n) { store(out + d, load(o + d, n), n); });
    a.lse[(batch * a.heads + head) * a.queries + i] = top + __builtin_logf(denominator);
  }
}

template <class T> void backward(const AttentionArgs& a, Index batch, Index kv_head, void* scratch) {
  const Index A = a.head_size, heads = a.heads / a.kv_heads, q_ld = a.heads * A, kv_ld = a.kv_heads * A, kv_offset = batch * a.keys * kv_ld + kv_head * A;
  const T *k = static_cast<const T*>(a.k) + kv_offset, *v = static_cast<const T*>(a.v) + kv_offset;
  auto *dk = static_cast<float*>(scratch), *dv = dk + a.keys * A, *dq = dv + a.keys * A;
  const float scale = 1.0F / __builtin_sqrtf(static_cast<float>(A));
  for_vectors(2 * a.keys * A, [&](Index d, auto n) { store(dk + d, F{}, n); });
  for (Index head = kv_head * heads; head < (kv_head + 1) * heads; ++head) {
    for (Index i = 0; i < a.queries; ++i) {
      const Index position = a.keys - a.queries + i, row = (batch * a.queries + i) * q_ld + head * A;
      const T *q = static_cast<const T*>(a.q) + row, *d_o = static_cast<const T*>(a.d_o) + row;
      const float delta = dot(d_o, static_cast<const T*>(a.o) + row, A), lse = a.saved_lse[(batch * a.heads + head) * a.queries + i];
      for_vectors(A, [&](Index d, auto n) { store(dq + d, F{}, n); });
      for (Index j = first_key(a, batch, position); j <= position; ++j) {
        const float p = exp(splat(dot(q, k + j * kv_ld, A) * scale - lse))[0];
        const float ds = p * (dot(d_o, v + j * kv_ld, A) - delta) * scale;
        for_vectors(A, [&](Index d, auto n) {
          store(dv + j * A + d, fma(load(d_o + d, n), splat(p), load(dv + j * A + d, n)), n);
          store(dk + j * A + d, fma(load(q + d, n), splat(ds), load(dk + j * A + d, n)), n);
          store(dq + d, fma(load(k + j * kv_ld + d, n), splat(ds), load(dq + d, n)), n);
        });
      }
      for_vectors(A, [&](Index d, auto n) { store(static_cast<T*>(a.dq) + row + d, load(dq + d, n), n); });
    }
  }
  for (Index j = 0; j < a.keys; ++j) {
    for_vectors(A, [&](Index d, auto n) {
      store(static_cast<T*>(a.dk) + kv_offset + j * kv_ld + d, load(dk + j * A + d, n), n);
      store(static_cast<T*>(a.dv) + kv_offset + j * kv_ld + d, load(dv + j * A + d, n), n);
    });
  }
}

Index forward_scratch_bytes(Index keys, Index head_size) { return 4 * (keys + head_size); }
Index backward_scratch_bytes(Index keys, Index head_size) { return 4 * (2 * keys + 1) * head_size; }

}  // namespace

const AttentionTable kAttentionTable = {{forward<float>, forward<Bf16>}, {backward<float>, backward<Bf16>}, forward_scratch_bytes, backward_scratch_bytes, 256};

}  // namespace optimus::cpu::OPTIMUS_ISA
