// How much memory saving and loading take beside the state itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "optimus/checkpoint/checkpoint.hpp"
#include "optimus/checkpoint/manifest.hpp"
#include "optimus/comm/self/self.hpp"
#include "optimus/tensor/arena.hpp"
#include "tests/support/checkpoint_testing.hpp"

namespace optimus {
namespace {

// Resident bytes at their highest since forget_peak(), from the kernel.
Index peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return 1024 * std::stoll(line.substr(6));
  }
  return -1;
}
void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

// The address sanitizer keeps what has been freed, and notes about every allocation: only growth without bound shows under it.
#ifdef __SANITIZE_ADDRESS__
constexpr Index kAllowance = 16;
#else
constexpr Index kAllowance = 1;
#endif

class CheckpointMemory : public testing::Test {
 protected:
  static constexpr Index kRows = 3, kRow = Index{1} << 24;  // tensors of 192 MiB, of which a row is 64 MiB
  static constexpr Index kBound = Index{32} << 20;          // what is allowed is 256 MiB; a state in memory twice, or one row of it, is more than this

  // Peak growth of an action.
  template <class Action> static Index growth(Action action) {
    forget_peak();
    const Index before = peak_bytes();
    action();
    return peak_bytes() - before;
  }

  test::TemporaryFolder folder;
  std::filesystem::path slot = folder.path() / "slot-0";
  std::unique_ptr<Communicator> world = make_self_communicator();
  Buffer buffer{kRows * kRow * 4};
  std::vector<Chunk> chunks{{.name = "model.large.{}.weight",
                             .global_shape = {kRows, kRow},
                             .box = Box::whole({kRows, kRow}),
                             .flat_begin = 0,
                             .data = View(buffer.data(), DType::kF32, {kRows * kRow})}};
};

TEST_F(CheckpointMemory, SavingAndLoadingTakeLittleMoreThanTheState) {
  std::fill_n(chunks[0].data.as<float>(), kRows * kRow, 0.5F);
  EXPECT_LT(growth([&] { write_checkpoint(*world, slot, test::toy_info(), chunks); }), kBound);
  EXPECT_LT(growth([&] { read_checkpoint(*world, slot, chunks); }), kBound);
  EXPECT_LT(growth([&] { EXPECT_TRUE(verify_checkpoint(slot).empty()); }), kBound);
  // One tensor at a time, which is a row here.
  EXPECT_LT(growth([&] { consolidate_checkpoint(slot, folder.path() / "all"); }), kRow * 4 + kBound);
}

// As 12,288 ranks would leave it: four kinds of state of some parameters in each rank's file.
Manifest large_manifest(Index ranks, Index chunks) {
  Manifest manifest;
  manifest.info = test::toy_info();
  for (Index t = 0; t < chunks; ++t) manifest.tensors.push_back({"exp_avg.model.layers." + std::to_string(1000 + t), DType::kF32, {ranks, 3 * 4096}});
  for (Index rank = 0; rank < ranks; ++rank) {
    StoredFile file{.name = "ranks-0000/rank-" + std::to_string(rank), .bytes = 1000, .header_bytes = 1000, .header_xxh64 = 1, .chunks = {}};
    for (Index t = 0; t < chunks; ++t) {
      const Region region{.box = Box::whole(manifest.tensors[0].shape), .flat_begin = rank * 3 * 4096, .flat_end = (rank + 1) * 3 * 4096};
      file.chunks.push_back({.tensor = t, .region = region, .file = rank, .offset = file.bytes, .bytes = region.count() * 4, .xxh64 = ~std::uint64_t{0}});
      file.bytes += region.count() * 4;
    }
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

TEST(LargeManifest, IsReadWithFarLessMemoryThanItsTextAsJson) {
  const Manifest manifest = large_manifest(4096, 12);
  const std::string text = manifest_text(manifest);
  EXPECT_LT(static_cast<Index>(text.size()), 4096 * 12 * 160) << "its size is per chunk";
  Manifest read;
  forget_peak();
  const Index before = peak_bytes();
  read = parse_manifest(text, "folder");
  const Index growth = peak_bytes() - before;
  EXPECT_LT(growth, kAllowance * (Index{64} << 20));  // as JSON in memory alone it is 80 MB
  EXPECT_EQ(read.files.size(), manifest.files.size());
  EXPECT_TRUE(manifest_text(read) == text);
}

}  // namespace
}  // namespace optimus
