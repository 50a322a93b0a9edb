#include "optimus/comm/mesh.hpp"

#include <fmt/format.h>

#include "optimus/base/check.hpp"
#include "optimus/base/counted.hpp"

namespace optimus {
namespace {

std::string product_text(const ParallelConfig& c) { return fmt::format("parallel.tp {} × parallel.ep {} × parallel.pp {}", c.tp, c.ep, c.pp); }

/// tp*ep*pp, or 0 if it does not fit 64 bits.
Index model_ranks(const ParallelConfig& c) {
  Index product = 0;
  if (__builtin_mul_overflow(c.tp, c.ep, &product) || __builtin_mul_overflow(product, c.pp, &product)) return 0;
  return product;
}

/// Why `world` ranks cannot have this layout; empty if they can.
std::string layout_problem(const ParallelConfig& c, Index world) {
  if (c.tp < 1 || c.ep < 1 || c.pp < 1) return product_text(c) + ": every degree is at least 1";
  if (world < 1) return fmt::format("a world of {}; at least 1 is needed", counted(world, "rank"));
  const Index product = model_ranks(c);
  if (product == 0)
    return fmt::format("{} is more than can be counted, not to speak of a world of {}; change a degree", product_text(c), counted(world, "rank"));
  if (product > world || world % product != 0)
    return fmt::format("{} = {} does not divide the world of {}; start a multiple of {} ranks or change a degree", product_text(c), product,
                       counted(world, "rank"), product);
  return {};
}

}  // namespace

void validate(const ParallelConfig& c, Problems& problems) {
  if (c.virtual_stages > 1 && c.pipeline_schedule != "interleaved")
    problems.add("parallel.virtual_stages",
                 fmt::format("{} virtual stages need pipeline_schedule \"interleaved\", not \"{}\"", c.virtual_stages, c.pipeline_schedule));
  if (c.virtual_stages > 1 && c.pp == 1) problems.add("parallel.virtual_stages", fmt::format("{} virtual stages need pp > 1, pp is 1", c.virtual_stages));
  Index num_stages = c.pp;
  const bool is_absurd = c.pipeline_schedule == "interleaved" && __builtin_mul_overflow(c.pp, c.virtual_stages, &num_stages);
  if (!c.layers_per_stage.empty() && (is_absurd || static_cast<Index>(c.layers_per_stage.size()) != num_stages))
    problems.add("parallel.layers_per_stage", fmt::format("{} for {}; give one for each stage or none", counted(c.layers_per_stage.size(), "number"),
                                                          is_absurd ? "more stages than can be counted" : counted(num_stages, "stage")));
}

void validate_layout(const ParallelConfig& c, Index world, Problems& problems) {
  if (std::string problem = layout_problem(c, world); !problem.empty()) problems.add("parallel", std::move(problem));
}

Mesh::Mesh(const ParallelConfig& config, Index world)
    : world_(world), pp_(config.pp), ep_(config.ep), tp_(config.tp), is_pp_slowest_(config.order == "pp-dp-ep-tp") {
  if (config.order != "pp-dp-ep-tp" && config.order != "dp-pp-ep-tp")
    throw ConfigError(fmt::format("[comm] parallel.order is \"{}\"; it must be \"dp-pp-ep-tp\" or \"pp-dp-ep-tp\"", config.order));
  if (const std::string problem = layout_problem(config, world); !problem.empty()) throw ConfigError("[comm] " + problem);
  dp_ = world / config.tp / config.ep / config.pp;
}

Coordinates Mesh::coordinates(Index rank) const {
  OPTIMUS_CHECK(rank >= 0 && rank < world_, "a rank outside the world");
  Coordinates c;
  c.tp = rank % tp_;
  rank /= tp_;
  c.ep = rank % ep_;
  rank /= ep_;
  c.pp = is_pp_slowest_ ? rank / dp_ : rank % pp_;
  c.dp = is_pp_slowest_ ? rank % dp_ : rank / pp_;
  return c;
}

Index Mesh::rank_of(Coordinates c) const {
  const Index slow = is_pp_slowest_ ? c.pp * dp_ + c.dp : c.dp * pp_ + c.pp;
  return (slow * ep_ + c.ep) * tp_ + c.tp;
}

Index Mesh::data_index(Index rank) const { return member_index(rank, Axis::kDpEp); }

Index Mesh::group_size(Axis axis) const {
  switch (axis) {
    case Axis::kDp: return dp_;
    case Axis::kEp: return ep_;
    case Axis::kTp: return tp_;
    case Axis::kPp: return pp_;
    case Axis::kDpEp: return dp_ * ep_;
    case Axis::kEpTp: return ep_ * tp_;
    case Axis::kDpEpTp: return dp_ * ep_ * tp_;
  }
  return 1;
}

Index Mesh::member_index(Index rank, Axis axis) const {
  const Coordinates c = coordinates(rank);
  switch (axis) {
    case Axis::kDp: return c.dp;
    case Axis::kEp: return c.ep;
    case Axis::kTp: return c.tp;
    case Axis::kPp: return c.pp;
    case Axis::kDpEp: return c.dp * ep_ + c.ep;
    case Axis::kEpTp: return c.ep * tp_ + c.tp;
    case Axis::kDpEpTp: return (c.dp * ep_ + c.ep) * tp_ + c.tp;
  }
  return 0;
}

Index Mesh::member_rank(Index rank, Axis axis, Index member) const {
  OPTIMUS_CHECK(member >= 0 && member < group_size(axis), "a member outside its group");
  Coordinates c = coordinates(rank);
  switch (axis) {
    case Axis::kDp: c.dp = member; break;
    case Axis::kEp: c.ep = member; break;
    case Axis::kTp: c.tp = member; break;
    case Axis::kPp: c.pp = member; break;
    case Axis::kDpEp:
      c.dp = member / ep_;
      c.ep = member % ep_;
      break;
    case Axis::kEpTp:
      c.ep = member / tp_;
      c.tp = member % tp_;
      break;
    case Axis::kDpEpTp:
      c.dp = member / tp_ / ep_;
      c.ep = member / tp_ % ep_;
      c.tp = member % tp_;
      break;
  }
  return rank_of(c);
}

Index Mesh::group_index(Index rank, Axis axis) const {
  // The coordinates that the members share, in rank order.
  const Coordinates c = coordinates(rank);
  const Index slow = is_pp_slowest_ ? c.pp * dp_ + c.dp : c.dp * pp_ + c.pp;
  switch (axis) {
    case Axis::kDp: return (c.pp * ep_ + c.ep) * tp_ + c.tp;
    case Axis::kEp: return slow * tp_ + c.tp;
    case Axis::kTp: return slow * ep_ + c.ep;
    case Axis::kPp: return (c.dp * ep_ + c.ep) * tp_ + c.tp;
    case Axis::kDpEp: return c.pp * tp_ + c.tp;
    case Axis::kEpTp: return slow;
    case Axis::kDpEpTp: return c.pp;
  }
  return 0;
}

}  // namespace optimus
