#include "optimus/checkpoint/gather_lines.hpp"

namespace optimus {
namespace {

constexpr int kTag = 71;

View as_view(std::string& text) { return {reinterpret_cast<std::byte*>(text.data()), DType::kU8, Shape{static_cast<Index>(text.size())}}; }
View as_view(Index& value) { return {reinterpret_cast<std::byte*>(&value), DType::kI64, Shape{1}}; }

}  // namespace

std::string gather_lines(Communicator& comm, std::string_view line) {
  std::string text(line);
  text += '\n';
  for (Index step = 1; step < comm.size(); step *= 2) {
    if ((comm.rank() & step) != 0) {
      auto bytes = static_cast<Index>(text.size());
      comm.send(as_view(bytes), comm.rank() - step, kTag);
      comm.send(as_view(text), comm.rank() - step, kTag);
      break;
    }
    if (comm.rank() + step >= comm.size()) continue;
    Index bytes = 0;
    comm.receive(as_view(bytes), comm.rank() + step, kTag);
    std::string part(static_cast<std::size_t>(bytes), '\0');
    comm.receive(as_view(part), comm.rank() + step, kTag);
    text += part;
  }
  return text;
}

}  // namespace optimus
