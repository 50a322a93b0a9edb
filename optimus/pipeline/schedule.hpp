#pragma once
// The order of work in a pipeline, as data: for each stage a list of actions. Nothing here computes or communicates.
//
// P stages, V chunks of layers on each (virtual stages), M micro-batches a step. Chunk `chunk` of stage `stage` is chunk chunk·P + stage of the model.

#include <string>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus::pipeline {

/// A backward pass is one action, or two: the gradient of the chunk's input, which the stage before waits for, and that of its weights, which nobody waits for.
enum class ActionKind { kForward, kBackward, kBackwardInput, kBackwardWeight };

/// One micro-batch through one chunk.
struct Action {
  ActionKind kind = ActionKind::kForward;
  Index chunk = 0;        ///< of this stage, 0 … V-1
  Index micro_batch = 0;  ///< 0 … M-1
  /// Which of the chunk's activation memories on this stage holds the micro-batch: taken by its forward, free again after its backward or weight part
  /// (after the forward itself where nothing goes backward). The lowest free one, so that 0 … slots()-1 are all that is ever needed.
  Index slot = 0;
  [[nodiscard]] bool operator==(const Action&) const = default;
};

/// "gpipe", "1f1b", "interleaved", "zero_bubble", or "forward": forward passes alone, as validation needs them.
struct ScheduleRequest {
  std::string name = "1f1b";
  Index stages = 1, virtual_stages = 1, micro_batches = 1;
};

struct Schedule {
  std::string name;
  Index stages = 1, virtual_stages = 1, micro_batches = 1;
  std::vector<std::vector<Action>> actions;  ///< [stage], in the order they run

  [[nodiscard]] bool is_forward_only() const { return name == "forward"; }
  /// Whether input and weight parts of backward passes are actions of their own.
  [[nodiscard]] bool splits_backward() const;
  [[nodiscard]] Index num_chunks() const { return stages * virtual_stages; }
  [[nodiscard]] Index global_chunk(Index stage, Index chunk) const { return chunk * stages + stage; }
  /// Activation memories of a chunk; at least 1 in a schedule with micro-batches.
  [[nodiscard]] Index slots(Index stage, Index chunk) const;
  /// Most micro-batches that the chunks of a stage hold at the same time, all chunks together.
  [[nodiscard]] Index peak_activations(Index stage) const;
};

/// The schedule asked for.
///
///   gpipe        all forwards, then all backwards.  Source: Huang et al. 2019, arXiv:1811.06965
///   1f1b         P-1-p forwards ahead on stage p, then a forward and a backward in turn.  Source: Narayanan et al. 2021, arXiv:2006.09503
///   interleaved  the same over V chunks, 2(P-1-p) + (V-1)P forwards ahead; V = 1 is 1f1b.  Source: Narayanan et al. 2021, arXiv:2104.04473
///   zero_bubble  1f1b with the weight part of micro-batch m after the input part of m+p: ZB-H1.  Source: Qi et al. 2024, arXiv:2401.10241
///   forward      groups of P micro-batches through chunk after chunk.
///
/// Order:   on every stage and chunk forwards run in the order of micro-batches, and so do input gradients and weight gradients: sums over micro-batches
///          have the same order, and so the same bits, in every schedule.
/// Sizes:   any M >= 1; interleaved needs a multiple of P. V > 1 only with interleaved and forward.
/// Errors:  ConfigError naming the numbers, or the names there are.
[[nodiscard]] Schedule build_schedule(const ScheduleRequest& request);

/// Most micro-batches, all chunks together, that stage p of a schedule of that name may hold.
///
///   gpipe M;  1f1b min(M, P-p);  interleaved min(MV, 2(P-1-p) + (V-1)P + 1), for V = 1 as 1f1b;  zero_bubble min(M, P);  forward 1
///
/// ZB-H1 holds no more than the fullest stage of 1f1b: min(M, P-p) micro-batches between forward and input part, the others only for their weight part.
/// Errors:  ConfigError for an unknown name.
[[nodiscard]] Index activation_bound(const Schedule& schedule, Index stage);

/// Checks that the schedule can run and be trusted: every pass of every micro-batch through every chunk exactly once and in order, nothing before what it
/// needs, no deadlock with receives that block and sends that do not, no slot used twice at once, no more activations than activation_bound().
/// Errors:  InternalError naming the stage and the action.
void validate(const Schedule& schedule);

/// "F3", "B3" (both parts or the input part), "W3" (the weight part); with several chunks a letter says which: "F3b" is chunk 1.
[[nodiscard]] std::string label(const Action& action, Index virtual_stages);
/// One line a stage: "stage 0: F0 F1 B0 B1".
[[nodiscard]] std::string print(const Schedule& schedule);

}  // namespace optimus::pipeline
