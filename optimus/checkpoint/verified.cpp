#include "optimus/checkpoint/verified.hpp"

#include <fmt/format.h>

#include <set>
#include <sstream>

#include "optimus/base/counted.hpp"
#include "optimus/checkpoint/problems.hpp"

namespace optimus {
namespace {

// A file of another checkpoint has a problem for each tensor: a few show what it is, checkpoint verify lists all.
constexpr std::size_t kMostOfAFile = 3, kMostOfAll = 100;

void shorten(std::vector<std::string>& problems, std::size_t most, const std::string& of_what) {
  if (problems.size() <= most) return;
  const std::size_t more = problems.size() - most;
  problems.resize(most);
  problems.push_back(fmt::format("{}: and {} more", of_what, counted(more, "problem")));
}

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
    std::vector<std::string> of_file = file_problems(folder, manifest, manifest.files[f]);
    shorten(of_file, kMostOfAFile, (folder / manifest.files[f].name).string());
    for (std::string& problem : of_file) problems.push_back(std::move(problem));
  }
  for (const Chunk& chunk : chunks) {
    if (std::string problem = reader.problem(chunk); !problem.empty()) problems.push_back(std::move(problem));
  }
  problems = share_problems(world, problems);
  shorten(problems, kMostOfAll, folder.string());
  throw_if_problems<CheckpointError>(fmt::format("[checkpoint] {} cannot be loaded", folder.string()), problems);
  return reader;
}

}  // namespace optimus
