#include "optimus/checkpoint/write_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>

#include "optimus/base/file.hpp"
#include "optimus/checkpoint/gather_lines.hpp"
#include "optimus/checkpoint/problems.hpp"
#include "optimus/checkpoint/safetensors.hpp"
#include "optimus/tensor/nonfinite.hpp"

namespace optimus {
namespace {

constexpr Index kRanksPerFolder = 256;
constexpr Index kSlackBytes = Index{1} << 20;  // headers and manifest

void check_chunks(std::span<const Chunk> chunks) {
  std::vector<std::string> problems;
  std::map<std::string, std::pair<Shape, std::vector<Region>>> regions;
  for (const Chunk& chunk : chunks) {
    const std::string problem = region_problem(chunk.global_shape, region_of(chunk));
    if (!problem.empty()) problems.push_back(fmt::format("{}: {}", chunk.name, problem));
    auto& [shape, own] = regions.try_emplace(chunk.name, chunk.global_shape, std::vector<Region>()).first->second;
    if (!(shape == chunk.global_shape)) problems.push_back(fmt::format("{}: of shape {} and of shape {}", chunk.name, shape.str(), chunk.global_shape.str()));
    own.push_back(region_of(chunk));
  }
  for (const auto& [name, shape_and_regions] : regions) {
    if (!problems.empty()) break;
    const auto& [shape, own] = shape_and_regions;
    const std::string problem = overlap_problem(shape, own, [&own = own](std::size_t i) { return own[i].str(); });
    if (!problem.empty()) problems.push_back(fmt::format("{}: {}", name, problem));
  }
  throw_if_problems<CheckpointError>("[checkpoint] these chunks cannot be saved", problems);
}

// One more than the highest of the folder itself and of the other slots beside it.
Index next_sequence(const std::filesystem::path& folder) {
  Index highest = 0;
  for (const auto& place : {folder, folder.parent_path() / "slot-0", folder.parent_path() / "slot-1"}) {
    std::error_code code;
    if (!std::filesystem::exists(place / kManifestName, code)) continue;
    try {
      highest = std::max(highest, read_manifest(place).info.sequence);
    } catch (const CheckpointError&) {
      continue;  // a damaged one is about to be replaced, or is reported by whoever loads
    }
  }
  return highest + 1;
}

}  // namespace

std::string data_file_name(Index rank, Index world_size, Index number) {
  const std::string name = fmt::format("rank-{:05d}-{}.safetensors", rank, number);
  return world_size <= kRanksPerFolder ? name : fmt::format("ranks-{:04d}/{}", rank / kRanksPerFolder, name);
}

WriteJob::WriteJob(Communicator& world, const std::filesystem::path& folder, CheckpointInfo info, Index file_bytes, WriteHooks hooks)
    : world_(world), paths_(folder), info_(std::move(info)), file_bytes_(file_bytes), hooks_(std::move(hooks)) {}

// Whatever fails on one rank ends the checkpoint on all, and nothing of it stays.
template <class Action> void WriteJob::agree_or_clean_up(Action&& action) {
  try {
    agree(world_, std::forward<Action>(action));
  } catch (...) {
    if (world_.rank() == 0) abandon_writing(paths_);
    throw;
  }
}

void WriteJob::prepare(std::span<const Chunk> chunks) {
  Index bytes = 0;
  for (const Chunk& chunk : chunks) bytes += chunk.data.bytes();
  bytes_ = bytes;
  world_.all_reduce(View(reinterpret_cast<std::byte*>(&bytes), DType::kI64, Shape{1}), Reduce::kSum);
  agree_or_clean_up([&] {
    check_chunks(chunks);
    plan_files(chunks);
    if (world_.rank() != 0) return;
    prepare_writing(paths_);
    const Index free = free_bytes(paths_.writing);
    if (bytes + kSlackBytes > free) {
      throw FileError(fmt::format("[checkpoint] {} needs {} bytes, the file system has {} free; make room or save elsewhere", paths_.folder.string(),
                                  bytes + kSlackBytes, free));
    }
  });
}

void WriteJob::plan_files(std::span<const Chunk> chunks) {
  // Larger element types first: tensors of a file are then aligned.
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i].data.count() > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return dtype_bytes(chunks[a].data.dtype()) > dtype_bytes(chunks[b].data.dtype()); });
  Index left = 0;
  for (const std::size_t i : order) {
    const Index count = chunks[i].data.count(), width = dtype_bytes(chunks[i].data.dtype());
    for (Index begin = 0; begin < count;) {
      if (left < width) {
        plan_.emplace_back();
        left = std::max(file_bytes_, width);
      }
      const Index end = std::min(count, begin + left / width);
      plan_.back().push_back({i, begin, end});
      left -= (end - begin) * width;
      begin = end;
    }
  }
}

void WriteJob::write_files(std::span<const Chunk> chunks) noexcept {
  try {
    wrote(0);
    for (const auto& pieces : plan_) write_one_file(chunks, pieces);
    verify_files();
  } catch (...) {
    failure_ = std::current_exception();
  }
  if (hooks_.ended) hooks_.ended();
}

void WriteJob::wrote(Index bytes) {
  written_bytes_ += bytes;
  if (hooks_.wrote) hooks_.wrote(written_bytes_, bytes_);
}

void WriteJob::write_one_file(std::span<const Chunk> chunks, std::span<const Piece> pieces) {
  StoredFile file{.name = data_file_name(world_.rank(), world_.size(), static_cast<Index>(written_.files.size())), .chunks = {}};
  std::vector<SafetensorsEntry> entries;
  for (const Piece& piece : pieces) {
    const Chunk& chunk = chunks[piece.chunk];
    Region region = region_of(chunk);
    region = {region.box, region.flat_begin + piece.begin, region.flat_begin + piece.end};
    auto known = std::find_if(written_.tensors.begin(), written_.tensors.end(), [&](const StoredTensor& tensor) { return tensor.name == chunk.name; });
    if (known == written_.tensors.end()) known = written_.tensors.insert(known, {chunk.name, chunk.data.dtype(), chunk.global_shape});
    const bool has_shape = region.count() == region.box.shape.count();
    entries.push_back({.name = chunk_key(*known, region), .dtype = chunk.data.dtype(), .shape = has_shape ? region.box.shape : Shape{region.count()}});
    file.chunks.push_back({.tensor = known - written_.tensors.begin(), .region = region, .bytes = region.count() * dtype_bytes(chunk.data.dtype())});
  }
  const std::filesystem::path path = paths_.writing / file.name;
  make_folders(path.parent_path());
  SafetensorsWriter writer(path, entries);
  for (const Piece& piece : pieces) {
    const Chunk& chunk = chunks[piece.chunk];
    const Index block = kIoBlockBytes / dtype_bytes(chunk.data.dtype());
    for (Index begin = piece.begin; begin < piece.end; begin += block) {
      const ConstView values = chunk.data.reshaped({chunk.data.count()}).rows(begin, std::min(piece.end, begin + block));
      if (const auto bad = find_first_nonfinite(values)) {
        throw NumericError(fmt::format("[checkpoint] {} has NaN or infinity at element {} of {}: not saved", chunk.name, chunk.flat_begin + begin + *bad,
                                       region_of(chunk).str()));
      }
      writer.write(values);
      wrote(values.bytes());
    }
  }
  writer.commit();
  wrote(0);
  file.bytes = writer.bytes();
  file.header_bytes = writer.header_bytes();
  file.header_xxh64 = writer.header_xxh64();
  Index offset = file.header_bytes;
  for (std::size_t i = 0; i < file.chunks.size(); ++i) {
    file.chunks[i].xxh64 = writer.xxh64s()[i];
    file.chunks[i].offset = offset;
    offset += file.chunks[i].bytes;
  }
  written_.files.push_back(std::move(file));
}

void WriteJob::verify_files() {
  for (const StoredFile& file : written_.files) {
    const auto problems = file_problems(paths_.writing, written_, file);
    throw_if_problems<FileError>("[checkpoint] what was just written does not read back", problems);
    wrote(0);
  }
}

void WriteJob::throw_failure() {
  agree_or_clean_up([&] {
    if (failure_) std::rethrow_exception(failure_);
  });
}

void WriteJob::gather() {
  throw_failure();
  tables_ = gather_lines(world_, tables_line(written_));
}

void WriteJob::publish(const std::function<void()>& after) noexcept {
  try {
    if (hooks_.publishing) hooks_.publishing();
    if (world_.rank() == 0) {
      put_in_place();
      after();
    }
  } catch (...) {
    failure_ = std::current_exception();
  }
  if (hooks_.ended) hooks_.ended();
}

void WriteJob::put_in_place() const {
  const Manifest manifest = merge_tables();
  for (const auto& entry : std::filesystem::directory_iterator(paths_.writing)) {
    if (entry.is_directory()) sync_folder(entry.path());
  }
  write_file_atomically(paths_.writing / kManifestName, manifest_text(manifest));
  sync_folder(paths_.writing);
  publish_folder(paths_);
}

void WriteJob::finish() { throw_failure(); }

Manifest WriteJob::merge_tables() const {
  Manifest manifest;
  manifest.info = info_;
  manifest.info.sequence = next_sequence(paths_.folder);
  std::istringstream stream(tables_);
  std::map<std::string, Index> known;
  for (std::string line; std::getline(stream, line);) add_tables_line(manifest, known, line);
  sort_tensors(manifest);
  throw_if_problems<CheckpointError>(fmt::format("[checkpoint] {}: not every element was passed exactly once", paths_.folder.string()),
                                     coverage_problems(manifest));
  return manifest;
}

}  // namespace optimus
