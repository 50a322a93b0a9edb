#include <algorithm>
#include <cmath>
#include <limits>

#include "optimus/backend/ref/kernels.hpp"
#include "optimus/backend/ref/storage.hpp"

namespace optimus::ref {
namespace {

/// Where things lie and who may see whom.
struct Layout {
  const AttentionShape& s;
  ConstView document_start;

  [[nodiscard]] Index query_row(Index b, Index i) const { return b * s.queries + i; }
  [[nodiscard]] Index key_row(Index b, Index j) const { return b * s.keys + j; }
  [[nodiscard]] Index query_column(Index h) const { return h * s.head_size; }
  [[nodiscard]] Index key_column(Index h) const { return h / (s.heads / s.kv_heads) * s.head_size; }
  [[nodiscard]] Index lse_row(Index b, Index h, Index i) const { return (b * s.heads + h) * s.queries + i; }
  /// The keys [first, last] that query i sees.
  [[nodiscard]] Index last_key(Index i) const { return s.keys - s.queries + i; }
  [[nodiscard]] Index first_key(Index b, Index i) const { return document_start.exists() ? document_start.as<std::int32_t>()[b * s.keys + last_key(i)] : 0; }

  /// s[i,j] of one head.
  [[nodiscard]] double score(const Matrix& q, const Matrix& k, Index b, Index h, Index i, Index j) const {
    double sum = 0;
    for (Index a = 0; a < s.head_size; ++a) sum += q(query_row(b, i), query_column(h) + a) * k(key_row(b, j), key_column(h) + a);
    return sum / std::sqrt(static_cast<double>(s.head_size));
  }

  template <class Fn>
  void for_each_query(Fn fn) const {
    for (Index b = 0; b < s.batch; ++b) {
      for (Index h = 0; h < s.heads; ++h) {
        for (Index i = 0; i < s.queries; ++i) fn(b, h, i);
      }
    }
  }
};

}  // namespace

void RefBackend::attention_forward(const AttentionShape& shape, ConstView q_view, ConstView k_view, ConstView v_view, ConstView document_start, View o_view,
                                   View lse_view) {
  const Layout at{shape, document_start};
  const Matrix q(q_view), k(k_view), v(v_view);
  Matrix o(o_view.size(0), o_view.size(1)), lse(lse_view.count(), 1);
  std::vector<double> scores(static_cast<std::size_t>(shape.keys));
  at.for_each_query([&](Index b, Index h, Index i) {
    const Index first = at.first_key(b, i), last = at.last_key(i);
    double max = -std::numeric_limits<double>::infinity(), sum = 0;
    for (Index j = first; j <= last; ++j) {
      scores[static_cast<std::size_t>(j)] = at.score(q, k, b, h, i, j);
      max = std::max(max, scores[static_cast<std::size_t>(j)]);
    }
    for (Index j = first; j <= last; ++j) sum += std::exp(scores[static_cast<std::size_t>(j)] - max);
    lse(at.lse_row(b, h, i), 0) = max + std::log(sum);
    for (Index j = first; j <= last; ++j) {
      const double p = std::exp(scores[static_cast<std::size_t>(j)] - max) / sum;
      for (Index a = 0; a < shape.head_size; ++a) o(at.query_row(b, i), at.query_column(h) + a) += p * v(at.key_row(b, j), at.key_column(h) + a);
    }
  });
  store(o_view, o.values);
  store(lse_view, lse.values);
}

void RefBackend::attention_backward(const AttentionShape& shape, ConstView d_o_view, const AttentionSaved& saved, const AttentionGradients& gradients) {
  const Layout at{shape, saved.document_start};
  const Matrix q(saved.q), k(saved.k), v(saved.v), d_o(d_o_view);
  const std::vector<double> lse = load(saved.lse);
  Matrix dq(saved.q.size(0), saved.q.size(1)), dk(saved.k.size(0), saved.k.size(1)), dv(saved.v.size(0), saved.v.size(1));
  std::vector<double> p(static_cast<std::size_t>(shape.keys)), dp(static_cast<std::size_t>(shape.keys));
  const double scale = 1 / std::sqrt(static_cast<double>(shape.head_size));
  at.for_each_query([&](Index b, Index h, Index i) {
    const Index first = at.first_key(b, i), last = at.last_key(i), query = at.query_row(b, i), column = at.query_column(h), key_column = at.key_column(h);
    double mean_dp = 0;  // sum_j p[j] * dp[j]
    for (Index j = first; j <= last; ++j) {
      const auto entry = static_cast<std::size_t>(j);
      p[entry] = std::exp(at.score(q, k, b, h, i, j) - lse[static_cast<std::size_t>(at.lse_row(b, h, i))]);
      dp[entry] = 0;
      for (Index a = 0; a < shape.head_size; ++a) dp[entry] += d_o(query, column + a) * v(at.key_row(b, j), key_column + a);
      mean_dp += p[entry] * dp[entry];
    }
    for (Index j = first; j <= last; ++j) {
      const auto entry = static_cast<std::size_t>(j);
      const Index key = at.key_row(b, j);
      const double ds = p[entry] * (dp[entry] - mean_dp) * scale;
      for (Index a = 0; a < shape.head_size; ++a) {
        dq(query, column + a) += ds * k(key, key_column + a);
        dk(key, key_column + a) += ds * q(query, column + a);
        dv(key, key_column + a) += p[entry] * d_o(query, column + a);
      }
    }
  });
  store(gradients.dq, dq.values);
  store(gradients.dk, dk.values);
  store(gradients.dv, dv.values);
}

void RefBackend::rope(View x_view, ConstView positions_T, ConstView cos_view, ConstView sin_view, Index head_size, bool is_backward) {
  const Matrix x(x_view), cos(cos_view), sin(sin_view);
  const Index half = head_size / 2;
  Matrix y(x_view.size(0), x_view.size(1));
  for (Index t = 0; t < x_view.size(0); ++t) {
    const Index position = positions_T.as<std::int32_t>()[t];
    for (Index head = 0; head < x_view.size(1); head += head_size) {
      for (Index a = 0; a < half; ++a) {
        const double c = cos(position, a), s = is_backward ? -sin(position, a) : sin(position, a);
        y(t, head + a) = x(t, head + a) * c - x(t, head + a + half) * s;
        y(t, head + a + half) = x(t, head + a + half) * c + x(t, head + a) * s;
      }
    }
  }
  store(x_view, y.values);
}

void RefBackend::clamp_forward(ConstView x_view, double limit, View y_view) {
  std::vector<double> y = load(x_view);
  for (double& value : y) value = std::min(std::max(value, -limit), limit);
  store(y_view, y);
}

void RefBackend::clamp_backward(ConstView dy_view, ConstView x_view, double limit, View dx_view) {
  std::vector<double> dx = load(dy_view);
  const std::vector<double> x = load(x_view);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    if (!(-limit <= x[i] && x[i] <= limit)) dx[i] = 0;
  }
  store(dx_view, dx);
}

}  // namespace optimus::ref
