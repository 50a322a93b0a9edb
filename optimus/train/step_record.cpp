#include "optimus/train/step_record.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace optimus {

std::string StepRecord::json() const {
  nlohmann::ordered_json line = {{"step", step},
                                 {"epoch", epoch},
                                 {"tokens", tokens},
                                 {"lm_loss", lm_loss},
                                 {"aux_loss", aux_loss},
                                 {"z_loss", z_loss},
                                 {"lr", lr},
                                 {"weight_decay", weight_decay},
                                 {"grad_norm", grad_norm},
                                 {"clip_coefficient", clip_coefficient},
                                 {"skipped", skipped},
                                 {"nonfinite_steps", nonfinite_steps},
                                 {"sample_ids_hash", sample_ids_hash},
                                 {"first_sample", first_sample},
                                 {"tokens_per_s", tokens_per_s},
                                 {"flops_per_s", flops_per_s},
                                 {"mfu", mfu},
                                 {"step_s", step_s}};
  auto& phases = line["phase_s"] = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < kPhaseNames.size(); ++i) phases[std::string(kPhaseNames[i])] = phase_s[i];
  line["expert_load_max"] = expert_load_max;
  line["expert_load_min"] = expert_load_min;
  if (!tokens_per_expert.empty()) line["tokens_per_expert"] = tokens_per_expert;
  if (validation_loss) line["validation_loss"] = *validation_loss;
  for (const SlowRank& slow : stragglers)
    line["stragglers"].push_back({{"rank", slow.rank}, {"host", slow.host}, {"phase", slow.phase}, {"seconds", slow.seconds}, {"median_s", slow.median_s}});
  return line.dump();
}

void set_expert_load(StepRecord& record, const std::vector<Index>& counts_LE, Index experts) {
  record.expert_load_max.clear();
  record.expert_load_min.clear();
  for (auto layer = counts_LE.begin(); layer != counts_LE.end(); layer += experts) {
    const auto [least, most] = std::minmax_element(layer, layer + experts);
    const double mean = static_cast<double>(std::accumulate(layer, layer + experts, Index{0})) / static_cast<double>(experts);
    record.expert_load_max.push_back(mean > 0 ? static_cast<double>(*most) / mean : 0);
    record.expert_load_min.push_back(mean > 0 ? static_cast<double>(*least) / mean : 0);
  }
}

}  // namespace optimus
