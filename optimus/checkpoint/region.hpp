#pragma once
// Arithmetic on parts of tensors: what two chunks share, whether chunks cover a tensor exactly once. Costs depend on the number of chunks, never of elements.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "optimus/tensor/chunk.hpp"

namespace optimus {

/// Elements [flat_begin, flat_end) of a box, counted row-major inside the box: where a chunk lies, without its bytes.
struct Region {
  Box box;
  Index flat_begin = 0, flat_end = 0;
  [[nodiscard]] Index count() const { return flat_end - flat_begin; }
  /// Whether it is all of a tensor of this shape.
  [[nodiscard]] bool is_whole(const Shape& shape) const { return box.shape == shape && flat_begin == 0 && flat_end == shape.count(); }
  /// "[0:4, 8:16]", and "(100:200)" behind it unless it is the whole box.
  [[nodiscard]] std::string str() const;
};

[[nodiscard]] Region region_of(const Chunk& chunk);
/// Why `region` cannot be a part of a tensor of this shape; empty if it can.
[[nodiscard]] std::string region_problem(const Shape& shape, const Region& region);

/// The same elements as at most 2 * ndim - 1 disjoint boxes, in row-major order.
[[nodiscard]] std::vector<Box> split_into_boxes(const Region& region);
/// What both hold; nothing if that is no element.
[[nodiscard]] std::optional<Box> intersect(const Box& a, const Box& b);
/// Whether some element is in both.
[[nodiscard]] bool have_common(const Region& a, const Region& b);

/// Which two regions share an element, and which; empty if none do. `who` names a region in the message.
[[nodiscard]] std::string overlap_problem(const Shape& shape, std::span<const Region> regions, const std::function<std::string(std::size_t)>& who);
/// Why the regions do not hold every element of the tensor exactly once; empty if they do.
[[nodiscard]] std::string coverage_problem(const Shape& shape, std::span<const Region> regions, const std::function<std::string(std::size_t)>& who);

/// Calls `run(position in a, position in b, count)` for the longest runs of elements that `a` and `b` share, of rising position in both; positions count
/// from the region's own first element.
void for_each_shared_run(const Region& a, const Region& b, const std::function<void(Index, Index, Index)>& run);

}  // namespace optimus
