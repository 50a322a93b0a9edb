#include "optimus/model/initialize.hpp"

#include <algorithm>
#include <span>

#include "optimus/base/check.hpp"
#include "optimus/base/random.hpp"

namespace optimus {
namespace {

/// Values of elements [begin, begin + values.size()) of the Hugging Face tensor `name`.
void fill_normal(const ParamSpec& spec, const std::string& name, std::uint64_t seed, Index begin, std::span<float> values) {
  constexpr Index kBlock = 1 << 16;  // a block is one thread's work; where it is cut does not show in the values
  const RandomStream stream(seed, "init", name);
  const Index count = static_cast<Index>(values.size());
#pragma omp parallel for schedule(static) if (count > kBlock)
  for (Index block = 0; block < ceil_div(count, kBlock); ++block) {
    const Index first = block * kBlock, size = std::min(kBlock, count - first);
    const auto part = values.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size));
    stream.fill_normal(begin + first, part);
    for (float& value : part) value = static_cast<float>(spec.init_std * static_cast<double>(value));
  }
}

/// A range of consecutive elements [begin, begin + values.size()) of the whole parameter.
void fill_range(const ParamSpec& spec, std::uint64_t seed, Index begin, std::span<float> values) {
  if (spec.init == Init::kOnes) return std::fill(values.begin(), values.end(), 1.0F);
  const Index entry_count = spec.is_stacked() ? spec.shape.count_from(1) : spec.shape.count();
  const Index end = begin + static_cast<Index>(values.size());
  for (Index at = begin; at < end;) {
    const Index entry = at / entry_count, stop = std::min(end, (entry + 1) * entry_count);
    fill_normal(spec, spec.tensor_name(entry), seed, at - entry * entry_count,
                values.subspan(static_cast<std::size_t>(at - begin), static_cast<std::size_t>(stop - at)));
    at = stop;
  }
  if (!spec.zero_row) return;
  const Index width = spec.shape.count_from(1);
  const Index zero_begin = std::clamp(*spec.zero_row * width, begin, end), zero_end = std::clamp((*spec.zero_row + 1) * width, begin, end);
  std::fill(values.begin() + (zero_begin - begin), values.begin() + (zero_end - begin), 0.0F);
}

/// Row-major index in the whole parameter of element `flat` of the box.
Index global_index(const ParamSpec& spec, const Box& box, Index flat) {
  Index index = 0, stride = 1;
  for (int d = spec.shape.ndim() - 1; d >= 0; --d) {
    index += (box.begin[d] + flat % box.shape[d]) * stride;
    flat /= box.shape[d];
    stride *= spec.shape[d];
  }
  return index;
}

/// Elements of the box that follow each other in the whole parameter too: the trailing dimensions the box has in full, and the one before them.
Index run_length(const ParamSpec& spec, const Box& box) {
  int d = spec.shape.ndim() - 1;
  while (d > 0 && box.shape[d] == spec.shape[d]) --d;
  return box.shape.count_from(d);
}

}  // namespace

void initialize(const ParamSpec& spec, const Box& box, Index flat_begin, std::uint64_t seed, View out) {
  OPTIMUS_CHECK(box.shape.ndim() == spec.shape.ndim() && flat_begin >= 0 && flat_begin + out.count() <= box.shape.count(), "the range must lie in the box");
  const auto values = out.span<float>();
  const Index end = flat_begin + out.count(), run = run_length(spec, box);
  for (Index at = flat_begin; at < end;) {
    const Index stop = std::min(end, (at / run + 1) * run);
    fill_range(spec, seed, global_index(spec, box, at), values.subspan(static_cast<std::size_t>(at - flat_begin), static_cast<std::size_t>(stop - at)));
    at = stop;
  }
}

}  // namespace optimus
