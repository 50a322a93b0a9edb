#pragma once
// Initial weights: each value a pure function of (seed, tensor name, global element index), so that no layout, rank count or thread count can change it.

#include "optimus/tensor/chunk.hpp"
#include "optimus/tensor/param_spec.hpp"

namespace optimus {

/// Fills elements [flat_begin, flat_begin + out.count()) of `box` of the parameter.
///
/// Element i of the tensor NAME (of a stacked parameter: of its entry's own Hugging Face tensor) is init_std * RandomStream(seed, "init", NAME).normal(i); ones for Init::kOnes;
/// 0 in the padding row.
/// Types:    out f32: the unrounded start of the fp32 master.
void initialize(const ParamSpec& spec, const Box& box, Index flat_begin, std::uint64_t seed, View out);

}  // namespace optimus
