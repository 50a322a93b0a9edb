#pragma once
// What a rank is doing: for messages, and as the places where drills strike.

#include <array>
#include <string_view>

#include "optimus/base/index.hpp"

namespace optimus {

enum class Activity { kLoad, kForward, kBackward, kCollective, kOptimizer, kSave, kWrite, kPublish, kShutdown, kValidation, kStart };
inline constexpr std::array<std::string_view, 11> kActivityNames = {"load",  "forward", "backward", "collective", "optimizer", "save",
                                                                    "write", "publish", "shutdown", "validation", "start"};
[[nodiscard]] constexpr std::string_view activity_name(Activity activity) { return kActivityNames[static_cast<std::size_t>(activity)]; }

/// A place within a step.
struct Place {
  Activity activity = Activity::kStart;
  Index micro_batch = -1;  ///< of forward and backward
  /// Of forward and backward: grows along the way of numbers through the model, from stage to stage and back, micro-batch by micro-batch.
  Index order = 0;
};

}  // namespace optimus
