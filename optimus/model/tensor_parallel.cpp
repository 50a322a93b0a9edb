#include "optimus/model/tensor_parallel.hpp"

#include <numeric>

#include "optimus/ops/misc.hpp"

namespace optimus {

ConstView gather_rows(const ModelContext& c, ConstView x_lD) {
  if (!c.is_sequence_parallel()) return x_lD;
  const View x_TD = c.operand(x_lD.dtype(), {c.rows(), x_lD.size(1)});
  c.tp->all_gather(x_lD, x_TD);
  return x_TD;
}

ConstView gather_changing_rows(const ModelContext& c, ConstView d_lD) {
  if (c.is_sequence_parallel() || c.deferred == nullptr) return gather_rows(c, d_lD);
  const View copy_TD = c.operand_like(d_lD);
  ops::copy(c.backend, d_lD, copy_TD);
  return copy_TD;
}

View partial_rows(const ModelContext& c, View y_lD) { return c.is_sequence_parallel() ? c.arena.alloc(y_lD.dtype(), {c.rows(), y_lD.size(1)}) : y_lD; }

void sum_rows(const ModelContext& c, View partial_TD, View y_lD) {
  if (c.is_sequence_parallel()) c.tp->reduce_scatter(partial_TD, y_lD);
  else if (c.tp != nullptr) c.tp->all_reduce(partial_TD, Reduce::kSum);
}

std::unique_ptr<Communicator> make_kv_sharers(const TransformerOptions& options, Communicator* tp) {
  const Index copies = options.split.tp / std::min(options.split.tp, options.model.num_key_value_heads);
  if (tp == nullptr || copies == 1) return nullptr;
  std::vector<Index> members(static_cast<std::size_t>(copies));
  std::iota(members.begin(), members.end(), options.split.tp_rank / copies * copies);
  return tp->subgroup(members, "kv");
}

}  // namespace optimus
