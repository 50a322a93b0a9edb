#pragma once
// What a node says about itself before it may take part, and what makes it unfit.

#include <string>

#include "optimus/base/index.hpp"

namespace optimus::launch {

/// What a node is asked for.
struct NodeNeeds {
  std::string run_dir;     ///< absolute; the node has to write there
  Index memory_bytes = 0;  ///< of all ranks that it will hold
  Index disk_bytes = 0;    ///< of one checkpoint, in run_dir
  double self_test_s = 1;  ///< how long it computes and compares
  std::string mark;        ///< processes with it are killed first (marked.hpp); empty: none
};

/// What it found.
struct NodeReport {
  std::string host;  ///< its own name
  Index threads = 0, memory_bytes = 0, available_bytes = 0, disk_free_bytes = 0;
  Index rounds = 0, wrong_rounds = 0;  ///< of the self-test
  Index killed = 0, unkillable = 0;    ///< processes of an earlier run
  std::string write_problem;           ///< why run_dir cannot be written; empty if it can
};

/// Looks at this machine; takes as long as the self-test.
[[nodiscard]] NodeReport examine_node(const NodeNeeds& needs);

/// One JSON object in a line, and back.  Errors of parsing: Error with the text.
[[nodiscard]] std::string to_json(const NodeReport& report);
[[nodiscard]] NodeReport parse_node_report(const std::string& text);

/// Whether the run folder is what a node cannot use: if that is so for all nodes, it is no node's fault.
[[nodiscard]] bool lacks_run_folder(const NodeReport& report, const NodeNeeds& needs);

/// Why a node with this report cannot be used; empty if it can.
[[nodiscard]] std::string problem_of(const NodeReport& report, const NodeNeeds& needs);

}  // namespace optimus::launch
