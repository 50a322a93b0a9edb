#pragma once
// Element types of files: conversion to f32 and rounding.

#include "optimus/tensor/view.hpp"

namespace optimus {

/// IEEE half precision to float, exact, subnormals and NaN included.
[[nodiscard]] float half_to_float(std::uint16_t bits);

/// Whether convert_elements can turn one into the other without loss: the same type, or bf16 or f16 into f32.
[[nodiscard]] bool is_convertible(DType from, DType to);
/// out[i] = input[i].  Errors: UnsupportedError if the types do not convert without loss; ShapeError if the counts differ.
void convert_elements(ConstView input, View out);
/// out[i] = input[i] rounded to nearest, ties to even.  Types: input f32; out f32 or bf16.  Errors: UnsupportedError.
void round_elements(ConstView input, View out);

}  // namespace optimus
