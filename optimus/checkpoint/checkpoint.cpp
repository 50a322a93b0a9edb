#include "optimus/checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include <set>
#include <system_error>

#include "optimus/checkpoint/background_part.hpp"
#include "optimus/checkpoint/fill.hpp"
#include "optimus/checkpoint/manifest.hpp"
#include "optimus/checkpoint/verified.hpp"
#include "optimus/checkpoint/write_job.hpp"

namespace optimus {

void write_checkpoint(Communicator& world, const std::filesystem::path& folder, const CheckpointInfo& info, std::span<const Chunk> chunks, Index file_bytes,
                      const WriteHooks& hooks) {
  WriteJob job(world, folder, info, file_bytes, hooks);
  job.prepare(chunks);
  BackgroundPart([&] { job.write_files(chunks); }).wait_for_all(world, hooks.waiting);
  job.gather();
  BackgroundPart([&] { job.publish([] {}); }).wait_for_all(world, hooks.waiting);
  job.finish();
}

CheckpointInfo read_checkpoint(Communicator& world, const std::filesystem::path& folder, std::span<const Chunk> chunks) {
  CheckpointReader reader = open_verified(world, folder, chunks);
  agree(world, [&] {
    for (const Chunk& chunk : chunks) reader.fill(chunk);
  });
  return reader.manifest().info;
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
