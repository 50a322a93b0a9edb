#include "optimus/checkpoint/async_writer.hpp"

#include <atomic>
#include <cstring>
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
  std::unique_ptr<WriteJob> job;
  std::atomic<bool> is_written{false};
  std::thread thread;

  std::filesystem::path publish() {
    thread.join();
    const auto finished = std::exchange(job, nullptr);
    finished->publish();
    return folder;
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

AsyncCheckpointWriter::AsyncCheckpointWriter(Communicator& world)
    : impl_(new Impl{.world = world, .buffer = {}, .copies = {}, .folder = {}, .job = {}, .is_written{false}, .thread = {}}) {}

AsyncCheckpointWriter::~AsyncCheckpointWriter() {
  if (impl_->thread.joinable()) impl_->thread.join();
}

Index AsyncCheckpointWriter::buffer_bytes(std::span<const Chunk> chunks) {
  Index bytes = 0;
  for (const Chunk& chunk : chunks) bytes += round_up(chunk.data.bytes(), kAlignment);
  return bytes;
}

bool AsyncCheckpointWriter::is_busy() const { return impl_->job != nullptr; }

void AsyncCheckpointWriter::start(const std::filesystem::path& folder, const CheckpointInfo& info, std::span<const Chunk> chunks) {
  OPTIMUS_CHECK(!is_busy(), "a checkpoint is started before the one before was finished");
  auto job = std::make_unique<WriteJob>(impl_->world, folder, info, kCheckpointFileBytes);
  job->prepare(chunks);
  agree(impl_->world, [&] { impl_->copy(chunks); });
  impl_->folder = folder;
  impl_->job = std::move(job);
  impl_->is_written = false;
  agree(impl_->world, [&] {
    impl_->thread = std::thread([impl = impl_.get()] {
      impl->job->write_files(impl->copies);
      impl->is_written = true;
    });
  });
}

std::optional<std::filesystem::path> AsyncCheckpointWriter::poll() {
  if (!is_busy()) return std::nullopt;
  Index all_written = impl_->is_written ? 1 : 0;
  impl_->world.all_reduce(View(reinterpret_cast<std::byte*>(&all_written), DType::kI64, Shape{1}), Reduce::kMin);
  if (all_written == 0) return std::nullopt;
  return impl_->publish();
}

std::optional<std::filesystem::path> AsyncCheckpointWriter::finish() {
  if (!is_busy()) return std::nullopt;
  return impl_->publish();
}

}  // namespace optimus
