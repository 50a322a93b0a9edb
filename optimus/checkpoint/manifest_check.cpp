// What a manifest promises against what is there.
#include <fmt/format.h>

#include "optimus/base/counted.hpp"
#include "optimus/base/file.hpp"
#include "optimus/checkpoint/manifest.hpp"
#include "optimus/checkpoint/read_file.hpp"

namespace optimus {

std::string read_manifest_text(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifestName;
  std::error_code code;
  if (!std::filesystem::exists(folder, code)) throw CheckpointError(fmt::format("[checkpoint] {} does not exist", folder.string()));
  if (!std::filesystem::exists(path, code))
    throw CheckpointError(fmt::format("[checkpoint] {} is not a checkpoint: it has no {}", folder.string(), kManifestName));
  if (!std::filesystem::is_regular_file(path, code)) throw CheckpointError(fmt::format("[checkpoint] {} is no regular file", path.string()));
  try {
    return read_file(path);
  } catch (const FileError& error) {
    throw CheckpointError(fmt::format("[checkpoint] {}", error.what()));
  }
}

Manifest read_manifest(const std::filesystem::path& folder) { return parse_manifest(read_manifest_text(folder), folder); }

std::vector<std::string> coverage_problems(const Manifest& manifest) {
  std::vector<std::string> problems;
  const auto chunks = manifest.chunks_by_tensor();
  for (std::size_t t = 0; t < manifest.tensors.size(); ++t) {
    std::vector<Region> regions;
    for (const StoredChunk* chunk : chunks[t]) regions.push_back(chunk->region);
    const auto who = [&](std::size_t i) {
      return fmt::format("{} of {}", regions[i].str(), manifest.files[static_cast<std::size_t>(chunks[t][i]->file)].name);
    };
    const std::string problem = coverage_problem(manifest.tensors[t].shape, regions, who);
    if (!problem.empty()) problems.push_back(fmt::format("tensor {}: {}", manifest.tensors[t].name, problem));
  }
  return problems;
}

namespace {

std::string size_problem(const std::filesystem::path& folder, const StoredFile& file) {
  const std::filesystem::path path = folder / file.name;
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return fmt::format("{} is missing", path.string());
  const auto bytes = static_cast<Index>(std::filesystem::file_size(path, code));
  if (code) return fmt::format("{}: {}", path.string(), code.message());
  if (bytes != file.bytes) return fmt::format("{} has {} instead of {}", path.string(), counted(bytes, "byte"), file.bytes);
  return "";
}

}  // namespace

std::vector<std::string> size_problems(const std::filesystem::path& folder, const Manifest& manifest) {
  std::vector<std::string> problems;
  for (const StoredFile& file : manifest.files) {
    if (std::string problem = size_problem(folder, file); !problem.empty()) problems.push_back(std::move(problem));
  }
  return problems;
}

std::vector<std::string> file_problems(const std::filesystem::path& folder, const Manifest& manifest, const StoredFile& file) {
  if (std::string problem = size_problem(folder, file); !problem.empty()) return {std::move(problem)};
  std::vector<std::string> problems;
  const std::string path = (folder / file.name).string();
  try {
    const ReadFile bytes(folder / file.name);
    if (bytes.hash(0, file.header_bytes) != file.header_xxh64) problems.push_back(fmt::format("{}: the header is altered", path));
    for (const StoredChunk& chunk : file.chunks) {
      if (bytes.hash(chunk.offset, chunk.bytes) == chunk.xxh64) continue;
      problems.push_back(fmt::format("{}: tensor {} {} is altered (bytes {} to {})", path, manifest.tensors[static_cast<std::size_t>(chunk.tensor)].name,
                                     chunk.region.str(), chunk.offset, chunk.offset + chunk.bytes));
    }
  } catch (const FileError& error) {
    problems.emplace_back(error.what());
  }
  return problems;
}

}  // namespace optimus
