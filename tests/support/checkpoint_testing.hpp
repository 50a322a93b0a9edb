#pragma once
// A small training state and the ways to cut it into chunks, worked out element by element: the oracle of the checkpoint tests.

#include <unistd.h>

#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "optimus/checkpoint/checkpoint.hpp"

namespace optimus::test {

/// A folder of its own that goes away with it; in memory where the machine has such a file system, for every checkpoint is synced.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static int counter = 0;
    const std::filesystem::path memory = "/dev/shm";
    path_ = (::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path()) /
            ("optimus-checkpoint-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}
inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

struct ToyTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;
};

/// Weights in bf16, master and moments in f32: a vector, a matrix of prime sizes, stacked experts.
struct ToyState {
  explicit ToyState(float offset = 0) {
    const std::vector<std::pair<std::string, Shape>> parameters{{"norm.weight", {5}}, {"embed.weight", {7, 4}}, {"experts.{}.up.weight", {6, 5, 3}}};
    for (const std::string prefix : {"model.", "master.", "exp_avg.", "exp_avg_sq."}) {
      for (const auto& [name, shape] : parameters) add(prefix + name, prefix == "model." ? DType::kBF16 : DType::kF32, shape, offset);
    }
  }
  void add(const std::string& name, DType dtype, const Shape& shape, float offset) {
    ToyTensor tensor{name, dtype, shape, std::vector<std::byte>(static_cast<std::size_t>(shape.count() * dtype_bytes(dtype)))};
    for (Index i = 0; i < shape.count(); ++i) {
      const float value = offset + static_cast<float>(i) + static_cast<float>(tensors.size()) * 0.25F;
      if (dtype == DType::kF32) std::memcpy(tensor.bytes.data() + 4 * i, &value, 4);
      const BFloat16 rounded(value);
      if (dtype == DType::kBF16) std::memcpy(tensor.bytes.data() + 2 * i, &rounded, 2);
    }
    tensors.push_back(std::move(tensor));
  }
  std::vector<ToyTensor> tensors;
};

/// Chunks with memory of their own.
struct ChunkSet {
  std::vector<Chunk> chunks;
  std::deque<std::vector<std::byte>> memory;

  /// The elements of `tensor` in `box`, of those flat [begin, end).
  void add(const ToyTensor& tensor, const Box& box, Index begin, Index end) {
    const Index width = dtype_bytes(tensor.dtype);
    auto& bytes = memory.emplace_back(static_cast<std::size_t>((end - begin) * width));
    for (Index i = begin; i < end; ++i) {
      Index rest = i, flat = 0, stride = 1;
      for (int d = tensor.shape.ndim() - 1; d >= 0; --d) {
        flat += (box.begin[d] + rest % box.shape[d]) * stride;
        rest /= box.shape[d];
        stride *= tensor.shape[d];
      }
      std::memcpy(bytes.data() + (i - begin) * width, tensor.bytes.data() + flat * width, static_cast<std::size_t>(width));
    }
    chunks.push_back(
        {.name = tensor.name, .global_shape = tensor.shape, .box = box, .flat_begin = begin, .data = View(bytes.data(), tensor.dtype, {end - begin})});
  }
  /// The same chunks, filled with something else.
  [[nodiscard]] ChunkSet poisoned() const {
    ChunkSet copy;
    for (const Chunk& chunk : chunks) {
      copy.chunks.push_back(chunk);
      auto& bytes = copy.memory.emplace_back(static_cast<std::size_t>(chunk.data.bytes()), std::byte{0xa5});
      copy.chunks.back().data = View(bytes.data(), chunk.data.dtype(), chunk.data.shape());
    }
    return copy;
  }
};

inline Box part_of(const Shape& shape, int dim, Index begin, Index end) {
  Box box = Box::whole(shape);
  box.begin.set(dim, begin);
  box.shape.set(dim, end - begin);
  return box;
}

/// How a state is divided: `boxes` of each tensor, each cut after every `flat` elements (0: not at all).
struct Layout {
  std::string name;
  std::function<std::vector<Box>(const Shape&)> boxes;
  Index flat = 0;
};

inline std::vector<Layout> layouts() {
  const auto whole = [](const Shape& s) { return std::vector{Box::whole(s)}; };
  const auto rows = [](const Shape& s) { return std::vector{part_of(s, 0, 0, 2), part_of(s, 0, 2, s[0])}; };
  const auto columns = [](const Shape& s) {
    const int dim = s.ndim() > 1 ? 1 : 0;
    return std::vector{part_of(s, dim, 0, 1), part_of(s, dim, 1, s[dim])};
  };
  const auto last = [](const Shape& s) {
    const int dim = s.ndim() - 1;
    return std::vector{part_of(s, dim, 0, 2), part_of(s, dim, 2, s[dim])};
  };
  return {{"whole", whole, 0},  {"rows", rows, 0},          {"columns", columns, 0},        {"last", last, 0},       {"flat_7", whole, 7},
          {"flat_1", whole, 1}, {"rows_flat_11", rows, 11}, {"columns_flat_5", columns, 5}, {"last_flat_3", last, 3}};
}

/// The pieces of `state` that rank `rank` of `size` holds: dealt out in turn.
inline ChunkSet cut(const ToyState& state, const Layout& layout, Index rank = 0, Index size = 1) {
  ChunkSet set;
  Index number = 0;
  for (const ToyTensor& tensor : state.tensors) {
    for (const Box& box : layout.boxes(tensor.shape)) {
      const Index count = box.shape.count(), step = layout.flat == 0 ? count : layout.flat;
      for (Index begin = 0; begin < count; begin += step) {
        if (number++ % size == rank) set.add(tensor, box, begin, std::min(count, begin + step));
      }
    }
  }
  return set;
}

inline CheckpointInfo toy_info(Index step = 3) {
  return {.folder = {},
          .is_full_state = true,
          .position = {.step = step, .tokens = 100 * step, .next_sample = 10 * step, .epoch = 1, .adam_step = step - 1, .nonfinite_steps = 1},
          .hf_config = "{\"model_type\": \"olmoe\"}",
          .run_config = "[run]\nsteps = 5\n",
          .layout = "dp 2",
          .weights_dtype = "bf16",
          .sequence = 0};
}

}  // namespace optimus::test
