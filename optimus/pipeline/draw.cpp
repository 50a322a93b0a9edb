#include "optimus/pipeline/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace optimus::pipeline {
namespace {

constexpr Index kFewestColumns = 40;
constexpr double kWidestAction = 40;

/// Columns a unit of time, so that every label and a space fit, unless that would make the longest action too wide.
double columns_per_time(const Schedule& s, const Simulation& simulation) {
  double scale = 0, longest = 0;
  for (std::size_t stage = 0; stage < s.actions.size(); ++stage)
    for (std::size_t i = 0; i < s.actions[stage].size(); ++i) {
      const double length = simulation.spans[stage][i].end - simulation.spans[stage][i].start;
      longest = std::max(longest, length);
      if (length > 0) scale = std::max(scale, static_cast<double>(label(s.actions[stage][i], s.virtual_stages).size() + 1) / length);
    }
  return std::min(scale, kWidestAction / longest);
}

std::string stage_line(const Schedule& s, const Simulation& simulation, std::size_t stage, double scale) {
  const auto column = [&](double time) { return static_cast<std::size_t>(std::llround(time * scale)); };
  std::string line(column(simulation.total), '.');
  for (std::size_t i = 0; i < s.actions[stage].size(); ++i) {
    const std::size_t begin = column(simulation.spans[stage][i].start), end = column(simulation.spans[stage][i].end);
    if (begin == end) continue;
    std::string cell = label(s.actions[stage][i], s.virtual_stages);
    cell.resize(std::max<std::size_t>(1, end - begin - 1), '-');
    cell.resize(end - begin, ' ');
    line.replace(begin, end - begin, cell);
  }
  return line;
}

std::string trimmed(const std::string& text) { return text.substr(0, text.find_last_not_of(' ') + 1); }

}  // namespace

std::string draw(const Schedule& s, const StageTimes& times, Index columns) {
  const Simulation simulation = simulate(s, times);
  const std::size_t name_width = fmt::format("stage {}  ", s.stages - 1).size();
  const std::size_t width = static_cast<std::size_t>(std::max(columns, kFewestColumns)) - name_width;
  const double scale = columns_per_time(s, simulation);
  std::vector<std::string> lines;
  for (std::size_t stage = 0; stage < s.actions.size(); ++stage) lines.push_back(stage_line(s, simulation, stage, scale));
  std::string text;
  for (std::size_t begin = 0; begin < lines.front().size(); begin += width) {
    if (lines.front().size() > width) text += fmt::format("{}from time {:.4g}:\n", begin > 0 ? "\n" : "", static_cast<double>(begin) / scale);
    for (std::size_t stage = 0; stage < lines.size(); ++stage)
      text += trimmed(fmt::format("{:<{}}{}", fmt::format("stage {}", stage), name_width, lines[stage].substr(begin, width))) + "\n";
  }
  return text;
}

}  // namespace optimus::pipeline
