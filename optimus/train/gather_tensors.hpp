#pragma once
// Whole tensors on one rank, from the parts that all ranks hold.

#include <map>
#include <string>
#include <vector>

#include "optimus/comm/communicator.hpp"
#include "optimus/tensor/chunk.hpp"

namespace optimus {

/// Every tensor of which some rank has chunks, row-major in float32, by name; only on rank 0, elsewhere nothing. Elements that nobody holds are 0.
/// Collective: over `world`. Memory: on rank 0 all of it, elsewhere the own chunks once more.
[[nodiscard]] std::map<std::string, std::vector<float>> gather_tensors(Communicator& world, const std::vector<Chunk>& chunks);

/// Elements of `view` from `begin` on, row-major, as f32 in `out`.   Types: f32 or bf16.
void copy_as_f32(ConstView view, Index begin, std::span<float> out);

}  // namespace optimus
