#include "optimus/checkpoint/async_writer.hpp"

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "optimus/base/check.hpp"
#include "optimus/checkpoint/write_job.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus {
namespace {

constexpr Index kAlignment = 64;

}  // namespace

struct AsyncCheckpointWriter::Impl {
  Communicator& world;
  Buffer buffer;
  std::vector<Chunk> copies;
  std::filesystem::path folder;
  std::function<void()> after;
  std::unique_ptr<WriteJob> job;  ///< nullptr: nothing is being written
  bool is_publishing = false;     ///< else files are being written
  std::atomic<bool> is_done{false};
  std::thread thread;

  template <class Work> void launch(Work work) {
    is_done = false;
    agree(world, [&] {
      thread = std::thread([this, work] {
        work();
        is_done = true;
      });
    });
  }

  /// Waits for the part that is being done; then begins the next, or returns the folder.
  std::optional<std::filesystem::path> advance() {
    if (thread.joinable()) thread.join();
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

AsyncCheckpointWriter::AsyncCheckpointWriter(Communicator& world) : impl_(new Impl{.world = world, .buffer = {}, .copies = {}, .folder = {}, .after = {}}) {}

AsyncCheckpointWriter::~AsyncCheckpointWriter() {
  if (impl_->thread.joinable()) impl_->thread.join();
}

Index AsyncCheckpointWriter::buffer_bytes(std::span<const Chunk> chunks) {
  Index bytes = 0;
  for (const Chunk& chunk : chunks) bytes += round_up(chunk.data.bytes(), kAlignment);
  return bytes;
}

bool AsyncCheckpointWriter::is_busy() const { return impl_->job != nullptr; }

void AsyncCheckpointWriter::start(const std::filesystem::path& folder, const CheckpointInfo& info, std::span<const Chunk> chunks, std::function<void()> after) {
  OPTIMUS_CHECK(!is_busy(), "a checkpoint is started before the one before was finished");
  auto job = std::make_unique<WriteJob>(impl_->world, folder, info, kCheckpointFileBytes);
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
  Index all_done = impl_->is_done ? 1 : 0;
  impl_->world.all_reduce(View(reinterpret_cast<std::byte*>(&all_done), DType::kI64, Shape{1}), Reduce::kMin);
  return all_done == 0 ? std::nullopt : impl_->advance();
}

std::optional<std::filesystem::path> AsyncCheckpointWriter::finish() {
  while (is_busy()) {
    if (auto folder = impl_->advance()) return folder;
  }
  return std::nullopt;
}

}  // namespace optimus
