#include "optimus/train/layout_checks.hpp"

#include <fmt/format.h>

#include <limits>

#include "optimus/base/counted.hpp"
#include "optimus/comm/stages.hpp"
#include "optimus/pipeline/schedule.hpp"
#include "optimus/train/sound_fields.hpp"

namespace optimus {
namespace {

class LayoutChecks {
 public:
  LayoutChecks(const RunConfig& config, const ConfigSource& source, Index ranks, Problems& problems)
      : c_(config), p_(config.parallel), sound_(source, problems), ranks_(ranks), problems_(problems) {}

  bool run() {
    const std::size_t before = problems_.items().size();
    const bool has_layout = check_world(), has_batch = check_batch(has_layout), has_model = sound_.has_model();
    if (has_model) {
      check_experts();
      check_tensor_parallel();
    }
    check_sequence_parallel();
    const bool has_stages = has_model && check_stages();
    if (has_layout && has_batch && has_stages) check_schedule();
    return has_layout && has_batch && has_stages && problems_.items().size() == before;
  }

 private:
  bool check_world() {
    if (!sound_.read({"parallel.tp", "parallel.ep", "parallel.pp", "parallel.order"})) return false;
    const std::size_t before = problems_.items().size();
    validate_layout(p_, ranks_, problems_);
    return problems_.items().size() == before;
  }

  bool check_batch(bool has_layout) {
    // Far beyond any use, and far from overflow in products with the sequence length.
    constexpr Index kMostSequences = Index{1} << 31;
    const std::size_t before = problems_.items().size();
    for (const auto& [key, size] : {std::pair{"batch.global_batch", c_.batch.global_batch}, std::pair{"batch.micro_batch", c_.batch.micro_batch}}) {
      if (size > kMostSequences) problems_.add(key, fmt::format("{} is more than {}", size, kMostSequences));
    }
    if (problems_.items().size() != before || !sound_.read({"batch.global_batch", "batch.micro_batch"})) return false;
    // Without a layout there are no data ranks to divide by.
    const Index data_ranks = has_layout ? Mesh(p_, ranks_).data_ranks() : 1, piece = checked_mul(data_ranks, c_.batch.micro_batch);
    if (c_.batch.global_batch % piece == 0) return true;
    if (!has_layout) problems_.add("batch.global_batch", fmt::format("{} is no multiple of micro_batch {}", c_.batch.global_batch, c_.batch.micro_batch));
    else
      problems_.add("batch.global_batch", fmt::format("{} cannot be divided over {} x micro_batch {}; make it a multiple of {}", c_.batch.global_batch,
                                                      counted(data_ranks, "data rank"), c_.batch.micro_batch, piece));
    return false;
  }

  void check_experts() {
    if (!sound_.good({"model.model_type"})) return;
    if (!c_.shape.is_moe && p_.ep > 1)
      problems_.add("parallel.ep", fmt::format("{} ranks have no experts to share: the model is dense (model_type olmo)", p_.ep));
    if (c_.shape.is_moe && sound_.read({"model.num_experts"}) && c_.shape.num_experts % p_.ep != 0)
      problems_.add("parallel.ep", fmt::format("num_experts {} cannot be divided over {} ranks", c_.shape.num_experts, p_.ep));
  }

  /// What every layer is cut into, against the ranks that share it.
  void check_tensor_parallel() {
    const Index tp = p_.tp, kv_heads = c_.shape.num_key_value_heads;
    const auto is_size = [&](std::string_view key, Index size) { return size >= 1 && sound_.read({key}); };
    const auto must_divide = [&](std::string_view key, std::string_view name, Index size) {
      if (is_size(key, size) && size % tp != 0) problems_.add("parallel.tp", fmt::format("{} {} cannot be divided over {} ranks", name, size, tp));
    };
    must_divide("model.num_attention_heads", "num_attention_heads", c_.shape.num_attention_heads);
    must_divide("model.intermediate_size", "intermediate_size", c_.shape.intermediate_size);
    if (is_size("model.num_key_value_heads", kv_heads) && kv_heads % tp != 0 && tp % kv_heads != 0) {
      problems_.add("parallel.tp",
                    fmt::format("num_key_value_heads {} can neither be divided over {} ranks nor held by equally many of them each", kv_heads, tp));
    }
    if (is_size("model.vocab_size", c_.shape.vocab_size) && c_.shape.vocab_size < tp)
      problems_.add("parallel.tp", fmt::format("vocab_size {} has nothing for some of {} ranks", c_.shape.vocab_size, tp));
  }

  void check_sequence_parallel() {
    const Index tp = p_.tp;
    if (tp == 1 || !p_.sequence_parallel || !sound_.read({"data.sequence_length", "parallel.sequence_parallel"})) return;
    if (c_.data.sequence_length % tp != 0) {
      problems_.add("parallel.sequence_parallel",
                    fmt::format("sequence_length {} cannot be divided over {} ranks; make it a multiple, or set this to false", c_.data.sequence_length, tp));
    }
  }

  bool check_stages() {
    const Index layers = c_.shape.num_hidden_layers;
    if (!sound_.good({"model.num_hidden_layers", "parallel.virtual_stages", "parallel.pp"})) return false;
    Index chunks = 0;
    if (__builtin_mul_overflow(p_.pp, p_.virtual_stages, &chunks)) chunks = std::numeric_limits<Index>::max();
    if (chunks > layers) {
      problems_.add("parallel.pp", fmt::format("{} x {} for {}: each needs at least one", counted(p_.pp, "stage"), counted(p_.virtual_stages, "virtual stage"),
                                               counted(layers, "layer")));
      return false;
    }
    // Another number of stages is named by validate().
    if (!sound_.read({"parallel.layers_per_stage"})) return false;
    if (!p_.layers_per_stage.empty() && static_cast<Index>(p_.layers_per_stage.size()) != chunks) return false;
    std::string problem = cut_problem(layers, chunks, p_.layers_per_stage);
    if (problem.empty()) return true;
    problems_.add("parallel.layers_per_stage", std::move(problem));
    return false;
  }

  /// A schedule may want a certain number of micro-batches.
  void check_schedule() {
    const bool is_interleaved = p_.pipeline_schedule == "interleaved";
    if (!sound_.read({"parallel.pipeline_schedule"}) || (p_.virtual_stages > 1 && !is_interleaved)) return;  // validate() names it
    const Index piece = Mesh(p_, ranks_).data_ranks() * c_.batch.micro_batch;
    try {
      (void)pipeline::build_schedule(
          {.name = p_.pipeline_schedule, .stages = p_.pp, .virtual_stages = p_.virtual_stages, .micro_batches = c_.batch.global_batch / piece});
    } catch (const ConfigError& error) {
      problems_.add("parallel.pipeline_schedule", error.what());
    }
  }

  const RunConfig& c_;
  const ParallelConfig& p_;
  SoundFields sound_;
  Index ranks_;
  Problems& problems_;
};

}  // namespace

bool check_layout(const RunConfig& config, const ConfigSource& source, Index ranks, Problems& problems) {
  return LayoutChecks(config, source, ranks, problems).run();
}

}  // namespace optimus
