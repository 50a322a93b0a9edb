#pragma once
// A curve drawn with braille characters, for terminals.

#include <span>
#include <string>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

/// One point of a curve.
struct CurvePoint {
  double x = 0, y = 0;
};

/// Draws `points` (x ascending) in `columns` x `rows` characters, each of 2 x 4 dots, with the range of y at the left and that of x below.
/// Points that are not finite are left out; several in one dot column are drawn from the lowest to the highest, columns between
/// two points on the line that joins them. Empty if nothing can be drawn.
[[nodiscard]] std::string draw_curve(std::span<const CurvePoint> points, Index columns = 72, Index rows = 12);

/// The losses in a metrics.jsonl, as points (step, lm_loss).  Errors: FileError.
[[nodiscard]] std::vector<CurvePoint> read_losses(const std::string& metrics_path);

}  // namespace optimus
