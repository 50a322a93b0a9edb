#include "optimus/checkpoint/region.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace optimus {
namespace {

// Appends the boxes of flat elements [begin, end) of `box` seen from dimension `dim` on; the dimensions before it are already narrowed to one index.
void split_from(int dim, Box box, Index begin, Index end, std::vector<Box>& boxes) {
  if (begin >= end) return;
  if (begin == 0 && end == box.shape.count_from(dim)) {
    boxes.push_back(box);
    return;
  }
  const Index row = box.shape.count_from(dim + 1);
  Index first = begin / row, last = end / row;
  const Index head = begin % row, tail = end % row, base = box.begin[dim];
  const auto narrowed = [&](Index from, Index to) {
    Box part = box;
    part.begin.set(dim, base + from);
    part.shape.set(dim, to - from);
    return part;
  };
  if (first == last) {
    split_from(dim + 1, narrowed(first, first + 1), head, tail, boxes);
    return;
  }
  if (head != 0) {
    split_from(dim + 1, narrowed(first, first + 1), head, row, boxes);
    ++first;
  }
  if (last > first) boxes.push_back(narrowed(first, last));
  if (tail != 0) split_from(dim + 1, narrowed(last, last + 1), 0, tail, boxes);
}

struct Piece {
  Box box;
  std::size_t owner;
};

// The dimension along which the fewest pieces stand side by side: the one with the most different starts.
int sweep_dim(const std::vector<Piece>& pieces, int ndim) {
  int best = 0;
  std::size_t most = 0;
  for (int d = 0; d < ndim; ++d) {
    std::set<Index> starts;
    for (const Piece& piece : pieces) starts.insert(piece.box.begin[d]);
    if (starts.size() > most) best = d;
    most = std::max(most, starts.size());
  }
  return best;
}

std::optional<std::pair<Piece, Piece>> find_overlap(std::vector<Piece> pieces, int ndim) {
  if (ndim == 0) return pieces.size() > 1 ? std::optional(std::pair(pieces[0], pieces[1])) : std::nullopt;
  const int dim = sweep_dim(pieces, ndim);
  std::sort(pieces.begin(), pieces.end(), [dim](const Piece& a, const Piece& b) { return a.box.begin[dim] < b.box.begin[dim]; });
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Index end = pieces[i].box.begin[dim] + pieces[i].box.shape[dim];
    for (std::size_t j = i + 1; j < pieces.size() && pieces[j].box.begin[dim] < end; ++j) {
      if (intersect(pieces[i].box, pieces[j].box)) return std::pair(pieces[i], pieces[j]);
    }
  }
  return std::nullopt;
}

std::string box_text(const Box& box) {
  std::string text = "[";
  for (int d = 0; d < box.shape.ndim(); ++d) text += fmt::format("{}{}:{}", d == 0 ? "" : ", ", box.begin[d], box.begin[d] + box.shape[d]);
  return text + "]";
}

// Runs of one box that both regions hold entirely.
void runs_of_box(const Box& shared, const Region& a, const Region& b, const std::function<void(Index, Index, Index)>& run) {
  const int ndim = shared.shape.ndim();
  // Dimensions from `inner` on follow one another in both, so one run spans them.
  int inner = std::max(ndim - 1, 0);
  while (inner > 0 && shared.shape[inner] == a.box.shape[inner] && shared.shape[inner] == b.box.shape[inner]) --inner;
  const Index length = shared.shape.count_from(inner);
  const auto position = [&](const Region& region, const std::array<Index, Shape::kMaxDims>& index) {
    Index flat = 0;
    for (int d = 0; d < ndim; ++d) flat = flat * region.box.shape[d] + shared.begin[d] + index[static_cast<std::size_t>(d)] - region.box.begin[d];
    return flat - region.flat_begin;
  };
  std::array<Index, Shape::kMaxDims> index{};
  while (true) {
    run(position(a, index), position(b, index), length);
    int d = inner - 1;
    while (d >= 0 && ++index[static_cast<std::size_t>(d)] == shared.shape[d]) index[static_cast<std::size_t>(d--)] = 0;
    if (d < 0) return;
  }
}

}  // namespace

std::string Region::str() const {
  std::string text = box_text(box);
  if (flat_begin != 0 || flat_end != box.shape.count()) text += fmt::format("({}:{})", flat_begin, flat_end);
  return text;
}

Region region_of(const Chunk& chunk) { return {chunk.box, chunk.flat_begin, checked_add(chunk.flat_begin, chunk.data.count())}; }

std::string region_problem(const Shape& shape, const Region& region) {
  const Box& box = region.box;
  if (box.shape.ndim() != shape.ndim() || box.begin.ndim() != shape.ndim()) return fmt::format("{} has other dimensions than {}", region.str(), shape.str());
  for (int d = 0; d < shape.ndim(); ++d) {
    if (box.begin[d] < 0 || box.shape[d] < 0 || box.shape[d] > shape[d] || box.begin[d] > shape[d] - box.shape[d])
      return fmt::format("{} goes beyond {}", region.str(), shape.str());
  }
  if (region.flat_begin < 0 || region.flat_end < region.flat_begin || region.flat_end > box.shape.count())
    return fmt::format("{} goes beyond its box", region.str());
  return "";
}

std::vector<Box> split_into_boxes(const Region& region) {
  std::vector<Box> boxes;
  split_from(0, region.box, region.flat_begin, region.flat_end, boxes);
  return boxes;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  Box shared = a;
  for (int d = 0; d < a.shape.ndim(); ++d) {
    const Index begin = std::max(a.begin[d], b.begin[d]);
    const Index end = std::min(a.begin[d] + a.shape[d], b.begin[d] + b.shape[d]);
    if (end <= begin) return std::nullopt;
    shared.begin.set(d, begin);
    shared.shape.set(d, end - begin);
  }
  return shared;
}

bool have_common(const Region& a, const Region& b) {
  if (!intersect(a.box, b.box)) return false;
  for (const Box& box_a : split_into_boxes(a)) {
    for (const Box& box_b : split_into_boxes(b)) {
      if (intersect(box_a, box_b)) return true;
    }
  }
  return false;
}

std::string overlap_problem(const Shape& shape, std::span<const Region> regions, const std::function<std::string(std::size_t)>& who) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    for (const Box& box : split_into_boxes(regions[i])) pieces.push_back({box, i});
  }
  const auto overlap = find_overlap(std::move(pieces), shape.ndim());
  if (!overlap) return "";
  const auto& [a, b] = *overlap;
  return fmt::format("elements {} are held twice: by {} and by {}", box_text(intersect(a.box, b.box).value_or(a.box)), who(std::min(a.owner, b.owner)),
                     who(std::max(a.owner, b.owner)));
}

std::string coverage_problem(const Shape& shape, std::span<const Region> regions, const std::function<std::string(std::size_t)>& who) {
  Index held = 0;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (const std::string problem = region_problem(shape, regions[i]); !problem.empty()) return fmt::format("{}: {}", who(i), problem);
    held = checked_add(held, regions[i].count());
  }
  // No two share an element and together they count as many as the tensor has: so each is held once.
  if (std::string problem = overlap_problem(shape, regions, who); !problem.empty()) return problem;
  if (held != shape.count()) return fmt::format("{} of {} elements are held by nobody", shape.count() - held, shape.count());
  return "";
}

void for_each_shared_run(const Region& a, const Region& b, const std::function<void(Index, Index, Index)>& run) {
  const auto boxes_b = split_into_boxes(b);
  for (const Box& box_a : split_into_boxes(a)) {
    for (const Box& box_b : boxes_b) {
      if (const auto shared = intersect(box_a, box_b)) runs_of_box(*shared, a, b, run);
    }
  }
}

}  // namespace optimus
