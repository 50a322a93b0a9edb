#include "optimus/train/fault_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "optimus/base/counted.hpp"
#include "optimus/model/stage.hpp"
#include "optimus/train/fault_target.hpp"

namespace optimus {
namespace {

bool spoils_numbers(const FaultConfig& fault) { return fault.kind == "nan" || fault.kind == "inf"; }

/// The pipeline stages that hold a tensor: two for an embedding that is the head too.
std::vector<Index> stages_with(const RunConfig& c, const std::string& tensor) {
  std::vector<Index> stages;
  for (Index stage = 0; stage < c.parallel.pp; ++stage) {
    if (find_tensor(parameter_specs(c.shape, stage_chunks(c.shape, c.parallel, stage)), tensor)) stages.push_back(stage);
  }
  return stages;
}

/// Where the tensor is instead; empty if the fault's rank holds it.
std::string elsewhere(const RunConfig& c, const FaultConfig& fault, Index ranks) {
  const Mesh mesh(c.parallel, ranks);
  const Index stage = mesh.member_index(fault.rank, Axis::kPp);
  const auto specs = parameter_specs(c.shape, stage_chunks(c.shape, c.parallel, stage));
  const auto tensor = find_tensor(specs, fault.tensor);
  if (!tensor && fault.tensor.empty()) return fmt::format("rank {} is on pipeline stage {}, which has no parameters", fault.rank, stage);
  if (!tensor) {
    const auto holders = stages_with(c, fault.tensor);
    return fmt::format("rank {} does not hold \"{}\": the rank is on pipeline stage {}, the parameter on stage {}", fault.rank, fault.tensor, stage,
                       fmt::join(holders, " and "));
  }
  const ParamSpec& spec = specs[tensor->parameter];
  const ModelSplit split = model_split(mesh, fault.rank);
  if (first_element(spec, *tensor, split)) return {};
  const Box box = local_box(spec, split);
  return fmt::format("rank {} does not hold \"{}\": the rank is on expert-parallel part {} with experts {} to {}, expert {} is on part {}", fault.rank,
                     fault.tensor, split.ep_rank, box.begin[0], box.begin[0] + box.shape[0] - 1, *tensor->expert, *tensor->expert / box.shape[0]);
}

}  // namespace

void check_faults(const RunConfig& c, const FaultScope& scope, Problems& problems) {
  for (std::size_t i = 0; i < c.faults.size(); ++i) {
    const FaultConfig& fault = c.faults[i];
    const std::string key = fmt::format("faults[{}].", i);
    const bool has_rank = fault.rank < scope.ranks;
    if (!has_rank) problems.add(key + "rank", fmt::format("{} does not exist: the run has {}", fault.rank, counted(scope.ranks, "rank")));
    if (fault.where == "activation" && c.parallel.tp * c.parallel.ep * c.parallel.pp == 1 && spoils_numbers(fault))
      problems.add(key + "where", "\"activation\" spoils what ranks send each other inside the model, and there is none: tp, ep and pp are 1");
    if (!scope.has_model) continue;
    const auto specs = parameter_specs(c.shape);
    if (!find_tensor(specs, fault.tensor)) {
      problems.add(key + "tensor", fmt::format("the model has no parameter \"{}\" (its first: \"{}\")", fault.tensor, specs.front().name));
    } else if (has_rank && scope.has_layout && spoils_numbers(fault) && (fault.where == "gradient" || fault.where == "weight")) {
      if (std::string problem = elsewhere(c, fault, scope.ranks); !problem.empty()) problems.add(key + "tensor", std::move(problem));
    }
  }
}

}  // namespace optimus
