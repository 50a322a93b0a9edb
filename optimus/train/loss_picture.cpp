#include "optimus/train/loss_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "optimus/base/error.hpp"

namespace optimus {
namespace {

struct Extent {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// Where `value` lies on a scale of `cells`.
  [[nodiscard]] Index cell(double value, Index cells) const {
    const double fraction = high > low ? (value - low) / (high - low) : 0.5;
    return std::clamp<Index>(static_cast<Index>(fraction * static_cast<double>(cells)), 0, cells - 1);
  }
};

/// Dots of a canvas, 2 x 4 in a character.
class Dots {
 public:
  Dots(Index columns, Index rows) : columns_(columns), cells_(static_cast<std::size_t>(columns * rows)) {}
  void set(Index x, Index y) {
    // Braille numbers its dots down the left column, then down the right one, with the lowest pair last.
    constexpr unsigned char kBit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    cells_[static_cast<std::size_t>((y / 4) * columns_ + x / 2)] |= kBit[y % 4][x % 2];
  }
  /// U+2800 plus the bits, in UTF-8.
  [[nodiscard]] std::string row(Index r) const {
    std::string text;
    for (Index c = 0; c < columns_; ++c) {
      const unsigned bits = cells_[static_cast<std::size_t>(r * columns_ + c)];
      text += {static_cast<char>(0xe2), static_cast<char>(0xa0 | (bits >> 6)), static_cast<char>(0x80 | (bits & 0x3f))};
    }
    return text;
  }

 private:
  Index columns_;
  std::vector<unsigned char> cells_;
};

}  // namespace

std::string draw_curve(std::span<const CurvePoint> points, Index columns, Index rows) {
  Extent x_extent, y_extent;
  for (const CurvePoint& p : points) {
    if (!std::isfinite(p.x) || !std::isfinite(p.y)) continue;
    x_extent.include(p.x);
    y_extent.include(p.y);
  }
  if (columns < 1 || rows < 1 || x_extent.low > x_extent.high) return "";

  const Index width = 2 * columns;
  std::vector<Extent> by_column(static_cast<std::size_t>(width));
  const CurvePoint* before = nullptr;
  for (const CurvePoint& p : points) {
    if (!std::isfinite(p.x) || !std::isfinite(p.y)) continue;
    const Index column = x_extent.cell(p.x, width), from = before != nullptr ? x_extent.cell(before->x, width) : column;
    by_column[static_cast<std::size_t>(column)].include(p.y);
    // Columns between two points lie on the straight line from one to the other.
    for (Index between = from + 1; between < column; ++between) {
      const double fraction = static_cast<double>(between - from) / static_cast<double>(column - from);
      by_column[static_cast<std::size_t>(between)].include(before->y + fraction * (p.y - before->y));
    }
    before = &p;
  }
  Dots dots(columns, rows);
  for (Index x = 0; x < width; ++x) {
    const Extent& e = by_column[static_cast<std::size_t>(x)];
    if (e.low > e.high) continue;
    for (Index y = y_extent.cell(e.low, 4 * rows); y <= y_extent.cell(e.high, 4 * rows); ++y) dots.set(x, 4 * rows - 1 - y);
  }
  std::string text;
  for (Index r = 0; r < rows; ++r) {
    const std::string label = r == 0 ? fmt::format("{:8.3f}", y_extent.high) : r == rows - 1 ? fmt::format("{:8.3f}", y_extent.low) : std::string(8, ' ');
    text += fmt::format("{} |{}\n", label, dots.row(r));
  }
  return text + fmt::format("{:>8}  {:<{}}{:>10.0f}\n", "step", fmt::format("{:.0f}", x_extent.low), std::max<Index>(columns - 10, 1), x_extent.high);
}

std::vector<CurvePoint> read_losses(const std::string& metrics_path) {
  std::ifstream in(metrics_path);
  if (!in) throw FileError(fmt::format("[log] cannot read {}", metrics_path));
  std::vector<CurvePoint> points;
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("step") && json.contains("lm_loss") && json["step"].is_number() && json["lm_loss"].is_number())
      points.push_back({json["step"].get<double>(), json["lm_loss"].get<double>()});
  }
  return points;
}

}  // namespace optimus
