#include "optimus/train/gather_tensors.hpp"

#include <nlohmann/json.hpp>

#include "optimus/checkpoint/region.hpp"

namespace optimus {
namespace {

constexpr int kTag = 3;

nlohmann::json numbers(const Shape& shape) {
  nlohmann::json list = nlohmann::json::array();
  for (int d = 0; d < shape.ndim(); ++d) list.push_back(shape[d]);
  return list;
}

Shape shape_of(const nlohmann::json& list) {
  Shape shape;
  for (const auto& size : list) shape.push_back(size.get<Index>());
  return shape;
}

/// What a chunk is, without its elements.
nlohmann::json header(const Chunk& chunk) {
  return {{"name", chunk.name},        {"shape", numbers(chunk.global_shape)}, {"begin", numbers(chunk.box.begin)}, {"box", numbers(chunk.box.shape)},
          {"first", chunk.flat_begin}, {"count", chunk.data.count()}};
}

View view_of(std::vector<float>& values) { return {reinterpret_cast<std::byte*>(values.data()), DType::kF32, {static_cast<Index>(values.size())}}; }

/// Puts the elements of one rank's chunks, which follow each other in `values`, where they belong.
void place(const nlohmann::json& headers, const std::vector<float>& values, std::map<std::string, std::vector<float>>& tensors) {
  Index at = 0;
  for (const auto& h : headers) {
    const Shape shape = shape_of(h["shape"]);
    auto& tensor = tensors[h["name"].get<std::string>()];
    tensor.resize(static_cast<std::size_t>(shape.count()));
    const Index first = h["first"].get<Index>(), count = h["count"].get<Index>();
    const Region part{.box = {.begin = shape_of(h["begin"]), .shape = shape_of(h["box"])}, .flat_begin = first, .flat_end = first + count};
    for_each_shared_run(part, {.box = Box::whole(shape), .flat_begin = 0, .flat_end = shape.count()}, [&](Index from, Index to, Index n) {
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(at + from), n, tensor.begin() + static_cast<std::ptrdiff_t>(to));
    });
    at += count;
  }
}

}  // namespace

void copy_as_f32(ConstView view, Index begin, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Index at = begin + static_cast<Index>(i);
    out[i] = view.dtype() == DType::kF32 ? view.as<float>()[at] : static_cast<float>(view.as<BFloat16>()[at]);
  }
}

std::map<std::string, std::vector<float>> gather_tensors(Communicator& world, const std::vector<Chunk>& chunks) {
  nlohmann::json mine = nlohmann::json::array();
  std::vector<float> values;
  for (const Chunk& chunk : chunks) {
    mine.push_back(header(chunk));
    const std::size_t at = values.size();
    values.resize(at + static_cast<std::size_t>(chunk.data.count()));
    copy_as_f32(chunk.data, 0, std::span(values).subspan(at));
  }
  const std::vector<std::string> headers = all_gather_text(world, mine.dump());
  std::map<std::string, std::vector<float>> tensors;
  if (world.rank() > 0) {
    world.send(view_of(values), 0, kTag);
    return tensors;
  }
  for (Index rank = 0; rank < world.size(); ++rank) {
    const auto list = nlohmann::json::parse(headers[static_cast<std::size_t>(rank)]);
    if (rank > 0) {
      std::size_t count = 0;
      for (const auto& h : list) count += h["count"].get<std::size_t>();
      values.resize(count);
      world.receive(view_of(values), rank, kTag);
    }
    place(list, values, tensors);
  }
  return tensors;
}

}  // namespace optimus
