#include "optimus/checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include <set>
#include <sstream>
#include <system_error>

#include "optimus/checkpoint/fill.hpp"
#include "optimus/checkpoint/manifest.hpp"
#include "optimus/checkpoint/problems.hpp"
#include "optimus/checkpoint/write_job.hpp"

namespace optimus {
namespace {

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

void write_checkpoint(Communicator& world, const std::filesystem::path& folder, const CheckpointInfo& info, std::span<const Chunk> chunks, Index file_bytes) {
  WriteJob job(world, folder, info, file_bytes);
  job.prepare(chunks);
  job.write_files(chunks);
  job.publish();
}

CheckpointInfo read_checkpoint(Communicator& world, const std::filesystem::path& folder, std::span<const Chunk> chunks) {
  CheckpointReader reader(share_manifest(world, folder));
  const Manifest& manifest = reader.manifest();
  std::vector<std::string> problems;
  for (std::size_t f = static_cast<std::size_t>(world.rank()); f < manifest.files.size(); f += static_cast<std::size_t>(world.size())) {
    for (std::string& problem : file_problems(folder, manifest, manifest.files[f])) problems.push_back(std::move(problem));
  }
  for (const Chunk& chunk : chunks) {
    if (std::string problem = reader.problem(chunk); !problem.empty()) problems.push_back(std::move(problem));
  }
  throw_if_problems<CheckpointError>(fmt::format("[checkpoint] {} cannot be loaded", folder.string()), share_problems(world, problems));
  agree(world, [&] {
    for (const Chunk& chunk : chunks) reader.fill(chunk);
  });
  return manifest.info;
}

CheckpointInfo inspect_checkpoint(const std::filesystem::path& folder) { return read_manifest(folder).info; }

CheckpointContents read_contents(const std::filesystem::path& folder) {
  const Manifest manifest = read_manifest(folder);
  CheckpointContents contents{.info = manifest.info, .tensors = {}, .files = {}, .bytes = manifest.total_bytes()};
  const auto chunks = manifest.chunks_by_tensor();
  for (std::size_t t = 0; t < manifest.tensors.size(); ++t) {
    const StoredTensor& tensor = manifest.tensors[t];
    contents.tensors.push_back(
        {tensor.name, tensor.dtype, tensor.shape, static_cast<Index>(chunks[t].size()), tensor.shape.count() * dtype_bytes(tensor.dtype)});
  }
  for (const StoredFile& file : manifest.files) contents.files.push_back({file.name, file.bytes, static_cast<Index>(file.chunks.size())});
  return contents;
}

std::vector<std::string> verify_checkpoint(const std::filesystem::path& folder) {
  std::vector<std::string> problems;
  Manifest manifest;
  try {
    manifest = read_manifest(folder);
  } catch (const CheckpointError& error) {
    return {error.what()};
  }
  std::set<std::filesystem::path> known;
  for (const StoredFile& file : manifest.files) {
    known.insert(folder / file.name);
    for (std::string& problem : file_problems(folder, manifest, file)) problems.push_back(std::move(problem));
  }
  std::error_code code;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, code)) {
    if (entry.path().extension() == ".safetensors" && !known.contains(entry.path()))
      problems.push_back(fmt::format("{} does not belong to this checkpoint", entry.path().string()));
  }
  return problems;
}

}  // namespace optimus
