#include "optimus/model/moe/dispatch.hpp"

#include <fmt/format.h>

#include <utility>

namespace optimus {
namespace {

/// Nothing travels: rows are read, and sums written, where they are.
class LocalDispatcher : public Dispatcher {
 public:
  [[nodiscard]] Index row_capacity(const MoeContext& /*c*/, Index rows) const override { return rows; }
  [[nodiscard]] Route allocate(const MoeContext& /*c*/, const IndexRange& rows) const override { return {.rows = rows}; }
  void decide(const MoeContext& /*c*/, ConstView /*index_TK*/, std::span<const Route> /*routes*/) const override {}
  [[nodiscard]] Index rows_at_hand(const MoeContext& /*c*/, const Route& route) const override { return route.rows.count; }

  [[nodiscard]] Traffic start_dispatch(const MoeContext& /*c*/, const Route& /*route*/, ConstView rows_TW) const override { return {.arrived_NW = rows_TW}; }
  void prepare_combine(const MoeContext& /*c*/, const Route& /*route*/, View out_TW, Traffic& traffic) const override { traffic.sums_NW = out_TW; }
  void start_combine(const MoeContext& /*c*/, const Route& /*route*/, Traffic& /*traffic*/) const override {}
  void finish_combine(const MoeContext& /*c*/, const Route& /*route*/, Traffic& /*traffic*/) const override {}
};

}  // namespace

void Traffic::wait() {
  if (request) std::exchange(request, nullptr)->wait();
}

IndexRange local_experts(const MoeContext& c) {
  if (c.ep == nullptr) return {.begin = 0, .count = c.shape.num_experts};
  const Index count = c.shape.num_experts / c.ep->size();
  return {.begin = c.ep->rank() * count, .count = count};
}

std::unique_ptr<Dispatcher> make_local_dispatcher() { return std::make_unique<LocalDispatcher>(); }

std::unique_ptr<Dispatcher> make_dispatcher(std::string_view name, const Communicator* ep) {
  if (ep == nullptr || ep->size() == 1) return make_local_dispatcher();
  if (name == "all_gather") return make_all_gather_dispatcher();
  if (name == "all_to_all") return make_all_to_all_dispatcher();
  throw ConfigError(fmt::format("[moe] there is no dispatcher \"{}\"; set moe.dispatcher to \"all_gather\" or \"all_to_all\"", name));
}

}  // namespace optimus
