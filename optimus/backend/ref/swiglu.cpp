#include <cmath>

#include "optimus/backend/ref/kernels.hpp"
#include "optimus/backend/ref/storage.hpp"

namespace optimus::ref {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

void RefBackend::swiglu_forward(ConstView gate_RF, ConstView up_RF, ConstView num_rows, View act_RF) {
  const Index R = num_rows.exists() ? num_rows.as<std::int64_t>()[0] : gate_RF.size(0);
  const std::vector<double> gate = load(gate_RF.rows(0, R)), up = load(up_RF.rows(0, R));
  std::vector<double> act(gate.size());
  for (std::size_t i = 0; i < act.size(); ++i) act[i] = gate[i] * sigmoid(gate[i]) * up[i];
  store(act_RF.rows(0, R), act);
}

void RefBackend::swiglu_backward(ConstView dact_RF, ConstView gate_RF, ConstView up_RF, View dgate_RF, View dup_RF) {
  const std::vector<double> dact = load(dact_RF), gate = load(gate_RF), up = load(up_RF);
  std::vector<double> dgate(gate.size()), dup(gate.size());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double s = sigmoid(gate[i]);
    dup[i] = dact[i] * gate[i] * s;
    dgate[i] = dact[i] * up[i] * s * (1 + gate[i] * (1 - s));
  }
  store(dgate_RF, dgate);
  store(dup_RF, dup);
}

void RefBackend::expert_swiglu_backward(ConstView dact_RF, ConstView gate_RF, ConstView up_RF, ConstView weight_R, ConstView segments_e,
                                        const ExpertActivationGradient& out) {
  const Index R = last(segments_e), F = gate_RF.size(1);
  const Matrix dact(dact_RF.rows(0, R)), gate(gate_RF.rows(0, R)), up(up_RF.rows(0, R));
  const std::vector<double> weight_of = load(weight_R.rows(0, R));
  Matrix dgate(R, F), dup(R, F), weighted_act(R, F), dweight(R, 1);
  for (Index r = 0; r < R; ++r) {
    const double weight = weight_of[static_cast<std::size_t>(r)];
    for (Index f = 0; f < F; ++f) {
      const double s = sigmoid(gate(r, f)), act = gate(r, f) * s * up(r, f);
      dweight(r, 0) += act * dact(r, f);
      weighted_act(r, f) = weight * act;
      dup(r, f) = weight * dact(r, f) * gate(r, f) * s;
      dgate(r, f) = weight * dact(r, f) * up(r, f) * s * (1 + gate(r, f) * (1 - s));
    }
  }
  store(out.dgate_RF.rows(0, R), dgate.values);
  store(out.dup_RF.rows(0, R), dup.values);
  store(out.weighted_act_RF.rows(0, R), weighted_act.values);
  store(out.dweight_R.rows(0, R), dweight.values);
}

}  // namespace optimus::ref
