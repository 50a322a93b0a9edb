#include "optimus/checkpoint/verified.hpp"

#include <fmt/format.h>

#include <set>
#include <sstream>

#include "optimus/checkpoint/problems.hpp"

namespace optimus {
namespace {

constexpr std::size_t kMostProblems = 20;  // a file of another checkpoint has one for each tensor

// The problems that any rank found, on all of them, each once.
std::vector<std::string> share_problems(Communicator& world, const std::vector<std::string>& mine) {
  std::string text;
  for (const std::string& problem : mine) text += problem + "\n";
  std::vector<std::string> all;
  std::set<std::string> seen;
  for (const std::string& part : all_gather_text(world, text)) {
    std::istringstream stream(part);
    for (std::string line; std::getline(stream, line);) {
      if (seen.insert(line).second) all.push_back(line);
    }
  }
  return all;
}

Manifest share_manifest(Communicator& world, const std::filesystem::path& folder) {
  std::string text;
  agree(world, [&] {
    // Read by one rank only: thousands that open one file at once are what file systems fear.
    if (world.rank() == 0) {
      text = read_manifest_text(folder);
      (void)parse_manifest(text, folder);
    }
  });
  return parse_manifest(broadcast_text(world, text, 0), folder);
}

}  // namespace

CheckpointReader open_verified(Communicator& world, const std::filesystem::path& folder, std::span<const Chunk> chunks) {
  CheckpointReader reader(share_manifest(world, folder));
  const Manifest& manifest = reader.manifest();
  std::vector<std::string> problems;
  for (std::size_t f = static_cast<std::size_t>(world.rank()); f < manifest.files.size(); f += static_cast<std::size_t>(world.size())) {
    for (std::string& problem : file_problems(folder, manifest, manifest.files[f])) problems.push_back(std::move(problem));
  }
  for (const Chunk& chunk : chunks) {
    if (std::string problem = reader.problem(chunk); !problem.empty()) problems.push_back(std::move(problem));
  }
  problems = share_problems(world, problems);
  if (problems.size() > kMostProblems) {
    const std::size_t more = problems.size() - kMostProblems;
    problems.resize(kMostProblems);
    problems.push_back(fmt::format("and {} more; optimus checkpoint verify {} lists what is wrong with the files", more, folder.string()));
  }
  throw_if_problems<CheckpointError>(fmt::format("[checkpoint] {} cannot be loaded", folder.string()), problems);
  return reader;
}

}  // namespace optimus
