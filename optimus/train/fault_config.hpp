#pragma once
// `[fault_tolerance]`, and `[[faults]]`: failures made on purpose.

#include <string>
#include <vector>

#include "optimus/config/field.hpp"

namespace optimus {

struct FaultToleranceConfig {
  double watchdog_s = 600;
  std::vector<std::string> save_on_signal = {"SIGTERM", "SIGUSR1"};
  double stop_before_walltime_s = 0;
};
template <class Visitor> void describe(Visitor& v, FaultToleranceConfig& c) {
  v.field("watchdog_s", c.watchdog_s, "Seconds after which a step, load, save or collective counts as stuck.", above(0.0));
  v.field("save_on_signal", c.save_on_signal, "Signals on which the run saves and ends with exit code 12; a second one ends it at once.");
  v.field("stop_before_walltime_s", c.stop_before_walltime_s, "Save and end this many seconds before the end that Slurm or PBS gives; 0: do not look.",
          at_least(0.0));
}

struct FaultConfig {
  std::string kind = "nan";
  Index rank = 0, step = 1;
  std::string phase = "forward", where = "gradient", tensor;
  Index after_bytes = 0;
  bool once = true;
  double seconds = 1;
};
template <class Visitor> void describe(Visitor& v, FaultConfig& c) {
  v.choice("kind", c.kind, {"nan", "inf", "die", "hang", "stop", "slow", "error", "torn_write", "write_error", "disk_full"},
           "What goes wrong. hang: the rank goes no further; stop: all of its process is stopped, as by SIGSTOP.");
  v.field("rank", c.rank, "On which rank.", at_least(0));
  v.field("step", c.step,
          "In which step; for the write faults and the phases save, write and publish: in the first checkpoint from this step on; for shutdown: at the end of "
          "a run that came this "
          "far.",
          at_least(1));
  v.choice("phase", c.phase, {"load", "forward", "backward", "collective", "optimizer", "save", "write", "publish", "shutdown"},
           "Of die, hang, stop, slow and error: where in the step. load: before its rows are read; forward, backward: in the first pass of a micro-batch; "
           "collective: before "
           "gradients are summed; optimizer: before weights change; save: before a checkpoint is written; write: while the rank's files of it are being "
           "written, with "
           "checkpoint.async in the background; publish: before it is put in place; shutdown: after the last one.");
  v.choice("where", c.where, {"gradient", "loss", "weight", "activation"},
           "Of nan and inf: what is spoilt, before any reduction. activation: the first number that the rank sends to those that compute the model with it, "
           "over tp, ep or pp.");
  v.field("tensor", c.tensor,
          "Of nan and inf in a gradient or weight: the parameter's name, or that of one expert; empty: the first of the rank. The rank must hold it.");
  v.field("after_bytes", c.after_bytes,
          "Of write_error, disk_full and the phase write: once so many bytes of the rank's part of the checkpoint are in its files, or all of them. 0: of the "
          "phase "
          "write, when writing begins; of write_error and disk_full, before that.",
          at_least(0));
  v.field("once", c.once, "Not again after a restart.");
  v.field("seconds", c.seconds, "Of slow: how long the step is held up.", Range{.min = 0, .max = 86400, .min_is_excluded = true});
}

}  // namespace optimus
