#include "apps/optimus/ranks.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include "apps/optimus/build.hpp"
#include "apps/optimus/number_checks.hpp"
#include "optimus/base/log.hpp"
#include "optimus/base/user_message.hpp"
#include "optimus/comm/agree_on.hpp"
#include "optimus/comm/mpi/environment.hpp"
#include "optimus/comm/self/self.hpp"

namespace optimus {
namespace {

/// How long ranks that end by an error wait for the others to come to the same end. Of a rank that is stuck or gone that is known already.
double patience_s(ExitCode code) { return code == ExitCode::kLostRank ? 2 : 10; }

ExitCode code_of(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return known != nullptr ? known->code() : ExitCode::kFailure;
}

ExitCode run_alone(const std::function<ExitCode(const Ranks&)>& action) {
  const auto world = make_self_communicator();
  return action({.world = *world, .set_time_limit = [](double) {}});
}

double start_limit_s() {
  const char* text = std::getenv(kStartLimit);  // NOLINT(concurrency-mt-unsafe): nobody sets it while we run
  if (text == nullptr) return MpiEnvironment::kTimeLimit_s;
  if (const std::string problem = finite_number(0.01)(text); !problem.empty())
    throw ConfigError(fmt::format("[launch] the variable {}: {}; unset it, optimus launch sets it for its ranks", kStartLimit, problem));
  return std::strtod(text, nullptr);
}

}  // namespace

ExitCode run_on_ranks(std::string_view command, const std::function<ExitCode(const Ranks&)>& action) {
  if (!MpiEnvironment::is_started_by_mpi()) return run_alone(action);
  MpiEnvironment environment(start_limit_s());
  auto world = environment.world();
  const bool is_first = world->rank() == 0;
  if (!is_first) set_log_prefix(fmt::format("rank {}: ", world->rank()));
  try {
    agree_on(*world, "build or command", fmt::format("{}command {}\n", build_text(), command));
    const ExitCode code = action({.world = *world, .set_time_limit = [&](double seconds) { environment.set_time_limit(seconds); }});
    world.reset();
    environment.close();
    return code;
  } catch (const std::exception& error) {
    world->announce_failure();
    if (is_first) std::fprintf(stderr, "error: %s\n", user_message(error).c_str());
    const ExitCode code = code_of(error);
    world.reset();
    environment.finish(static_cast<int>(code), patience_s(code));
    return code;
  }
}

}  // namespace optimus
