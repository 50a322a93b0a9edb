#include "optimus/checkpoint/fill.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "optimus/base/check.hpp"
#include "optimus/checkpoint/elements.hpp"

namespace optimus {
namespace {

constexpr std::size_t kOpenFiles = 64;

}  // namespace

void read_shared(const ReadFile& file, Index offset, DType dtype, const Region& stored, const Region& wanted, View out) {
  const Index width = dtype_bytes(dtype), out_width = dtype_bytes(out.dtype());
  BlockReader reader(file);
  std::vector<std::byte> block;
  for_each_shared_run(stored, wanted, [&](Index from, Index to, Index count) {
    if (dtype == out.dtype()) {
      reader.read(offset + from * width, {out.data() + to * width, static_cast<std::size_t>(count * width)});
      return;
    }
    for (Index done = 0; done < count;) {
      const Index part = std::min(count - done, kIoBlockBytes / width);
      block.resize(static_cast<std::size_t>(part * width));
      reader.read(offset + (from + done) * width, block);
      convert_elements(ConstView(block.data(), dtype, {part}), View(out.data() + (to + done) * out_width, out.dtype(), {part}));
      done += part;
    }
  });
}

CheckpointReader::CheckpointReader(Manifest manifest) : manifest_(std::move(manifest)), chunks_(manifest_.chunks_by_tensor()) {}

std::string CheckpointReader::problem(const Chunk& chunk) const {
  const Index t = manifest_.find_tensor(chunk.name);
  if (t < 0) return fmt::format("tensor {} is missing", chunk.name);
  const StoredTensor& tensor = manifest_.tensors[static_cast<std::size_t>(t)];
  if (!(tensor.shape == chunk.global_shape))
    return fmt::format("tensor {} has shape {}, {} is needed", chunk.name, tensor.shape.str(), chunk.global_shape.str());
  if (!is_convertible(tensor.dtype, chunk.data.dtype()))
    return fmt::format("tensor {} is stored as {}, {} is needed", chunk.name, dtype_name(tensor.dtype), dtype_name(chunk.data.dtype()));
  const std::string problem = region_problem(chunk.global_shape, region_of(chunk));
  return problem.empty() ? "" : fmt::format("tensor {}: {}", chunk.name, problem);
}

void CheckpointReader::fill(const Chunk& chunk) {
  const Index t = manifest_.find_tensor(chunk.name);
  OPTIMUS_CHECK(t >= 0, "a tensor is read that was not looked for before");
  const Region wanted = region_of(chunk);
  for (const StoredChunk* stored : chunks_[static_cast<std::size_t>(t)]) {
    // Most stored chunks of a large world have nothing to do with this one; their files stay closed.
    if (!have_common(stored->region, wanted)) continue;
    read_shared(open(stored->file), stored->offset, manifest_.tensors[static_cast<std::size_t>(t)].dtype, stored->region, wanted, chunk.data);
  }
}

const ReadFile& CheckpointReader::open(Index file) {
  const auto at = files_.find(file);
  if (at != files_.end()) return at->second;
  if (files_.size() == kOpenFiles) files_.erase(files_.begin());  // a process may hold only so many open
  return files_.emplace(file, ReadFile(manifest_.info.folder / manifest_.files[static_cast<std::size_t>(file)].name)).first->second;
}

}  // namespace optimus
