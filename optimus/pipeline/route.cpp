#include "optimus/pipeline/route.hpp"

namespace optimus::pipeline {
namespace {

std::optional<Route> route(const Schedule& s, Direction direction, Index from_chunk, Index to_chunk, Index micro_batch) {
  const Index last = s.num_chunks() - 1;
  if (from_chunk < 0 || to_chunk < 0 || from_chunk > last || to_chunk > last) return std::nullopt;
  return Route{direction, from_chunk % s.stages, to_chunk % s.stages, to_chunk, micro_batch};
}

}  // namespace

std::optional<Route> incoming(const Schedule& s, Index stage, const Action& a) {
  const Index chunk = s.global_chunk(stage, a.chunk);
  if (a.kind == ActionKind::kBackwardWeight) return std::nullopt;
  if (a.kind == ActionKind::kForward) return route(s, Direction::kForward, chunk - 1, chunk, a.micro_batch);
  return route(s, Direction::kBackward, chunk + 1, chunk, a.micro_batch);
}

std::optional<Route> outgoing(const Schedule& s, Index stage, const Action& a) {
  const Index chunk = s.global_chunk(stage, a.chunk);
  if (a.kind == ActionKind::kBackwardWeight) return std::nullopt;
  if (a.kind == ActionKind::kForward) return route(s, Direction::kForward, chunk, chunk + 1, a.micro_batch);
  return route(s, Direction::kBackward, chunk, chunk - 1, a.micro_batch);
}

StageRoutes stage_routes(const Schedule& s, Index stage, Direction direction) {
  StageRoutes routes;
  for (const Action& action : s.actions[static_cast<std::size_t>(stage)]) {
    if (const auto in = incoming(s, stage, action); in && in->direction == direction) routes.receives.push_back(*in);
    if (const auto out = outgoing(s, stage, action); out && out->direction == direction) routes.sends.push_back(*out);
  }
  return routes;
}

std::optional<std::size_t> stuck_stage(const Schedule& s, const std::vector<std::size_t>& done) {
  for (std::size_t stage = 0; stage < done.size(); ++stage)
    if (done[stage] < s.actions[stage].size()) return stage;
  return std::nullopt;
}

}  // namespace optimus::pipeline
