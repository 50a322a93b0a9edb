#include "optimus/checkpoint/async_writer.hpp"

#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "optimus/base/check.hpp"
#include "optimus/checkpoint/background_part.hpp"
#include "optimus/checkpoint/write_job.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus {
namespace {

constexpr Index kAlignment = 64;

}  // namespace

struct AsyncCheckpointWriter::Impl {
  Communicator& world;
  WriteHooks hooks;
  Buffer buffer;
  std::vector<Chunk> copies;
  std::filesystem::path folder;
  std::function<void()> after;
  std::unique_ptr<WriteJob> job;  ///< nullptr: nothing is being written
  bool is_publishing = false;     ///< else files are being written
  std::unique_ptr<BackgroundPart> part;

  void launch(const std::function<void()>& work) {
    try {
      agree(world, [&] { part = std::make_unique<BackgroundPart>(work); });
    } catch (...) {  // of another rank: this one's thread has to end before what it works on
      part.reset();
      throw;
    }
  }

  /// The part that was being done is done by all: begins the next, or returns the folder.
  std::optional<std::filesystem::path> advance() {
    part.reset();
    auto current = std::exchange(job, nullptr);  // whatever is thrown ends it
    if (is_publishing) {
      current->finish();
      return folder;
    }
    current->gather();
    is_publishing = true;
    launch([this, raw = current.get()] { raw->publish(after); });
    job = std::move(current);
    return std::nullopt;
  }

  void copy(std::span<const Chunk> chunks) {
    const Index bytes = buffer_bytes(chunks);
    if (buffer.bytes() < bytes) buffer = Buffer();  // gives back the old one before asking for the new
    if (buffer.bytes() < bytes) buffer = Buffer(bytes);
    copies.assign(chunks.begin(), chunks.end());
    Index offset = 0;
    for (Chunk& chunk : copies) {
      std::byte* place = buffer.data() + offset;
      if (chunk.data.bytes() > 0) std::memcpy(place, chunk.data.data(), static_cast<std::size_t>(chunk.data.bytes()));
      offset += round_up(chunk.data.bytes(), kAlignment);
      chunk.data = View(place, chunk.data.dtype(), chunk.data.shape());
    }
  }
};

AsyncCheckpointWriter::AsyncCheckpointWriter(Communicator& world, WriteHooks hooks)
    : impl_(new Impl{.world = world, .hooks = std::move(hooks), .buffer = {}, .copies = {}, .folder = {}, .after = {}}) {}
AsyncCheckpointWriter::~AsyncCheckpointWriter() = default;

Index AsyncCheckpointWriter::buffer_bytes(std::span<const Chunk> chunks) {
  Index bytes = 0;
  for (const Chunk& chunk : chunks) bytes += round_up(chunk.data.bytes(), kAlignment);
  return bytes;
}

bool AsyncCheckpointWriter::is_busy() const { return impl_->job != nullptr; }

void AsyncCheckpointWriter::start(const std::filesystem::path& folder, const CheckpointInfo& info, std::span<const Chunk> chunks, std::function<void()> after) {
  OPTIMUS_CHECK(!is_busy(), "a checkpoint is started before the one before was finished");
  auto job = std::make_unique<WriteJob>(impl_->world, folder, info, kCheckpointFileBytes, impl_->hooks);
  job->prepare(chunks);
  agree(impl_->world, [&] { impl_->copy(chunks); });
  impl_->folder = folder;
  impl_->after = std::move(after);
  impl_->is_publishing = false;
  impl_->launch([impl = impl_.get(), raw = job.get()] { raw->write_files(impl->copies); });
  impl_->job = std::move(job);
}

std::optional<std::filesystem::path> AsyncCheckpointWriter::poll() {
  if (!is_busy()) return std::nullopt;
  return impl_->part->is_done_by_all(impl_->world) ? impl_->advance() : std::nullopt;
}

std::optional<std::filesystem::path> AsyncCheckpointWriter::finish() {
  while (is_busy()) {
    impl_->part->wait_for_all(impl_->world, impl_->hooks.waiting);
    if (auto folder = impl_->advance()) return folder;
  }
  return std::nullopt;
}

}  // namespace optimus
