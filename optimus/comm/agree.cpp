#include <fmt/format.h>

#include <exception>

#include "optimus/base/user_message.hpp"
#include "optimus/comm/communicator.hpp"

namespace optimus {
namespace {

/// The classes of the family, in an order that all ranks share. Kind 0 is Error itself, with whatever exit code it had.
enum Kind : int {
  kPlain,
  kConfigKind,
  kShapeKind,
  kUnsupportedKind,
  kDataKind,
  kCheckpointKind,
  kCommKind,
  kDeviceKind,
  kNumericKind,
  kFileKind,
  kInternalKind
};

int kind_of(const Error& error) {
  if (dynamic_cast<const ConfigError*>(&error)) return kConfigKind;
  if (dynamic_cast<const ShapeError*>(&error)) return kShapeKind;
  if (dynamic_cast<const UnsupportedError*>(&error)) return kUnsupportedKind;
  if (dynamic_cast<const DataError*>(&error)) return kDataKind;
  if (dynamic_cast<const CheckpointError*>(&error)) return kCheckpointKind;
  if (dynamic_cast<const CommError*>(&error)) return kCommKind;
  if (dynamic_cast<const DeviceError*>(&error)) return kDeviceKind;
  if (dynamic_cast<const NumericError*>(&error)) return kNumericKind;
  if (dynamic_cast<const FileError*>(&error)) return kFileKind;
  if (dynamic_cast<const InternalError*>(&error)) return kInternalKind;
  return kPlain;
}

/// The exit code with this number; an unknown number is a failure like any other.
ExitCode exit_code(int number) {
  for (const ExitCode code : {ExitCode::kConfig, ExitCode::kData, ExitCode::kCheckpoint, ExitCode::kNonFinite, ExitCode::kLostRank, ExitCode::kStoppedBySignal,
                              ExitCode::kNoSpareNode})
    if (static_cast<int>(code) == number) return code;
  return ExitCode::kFailure;
}

View view_of(std::string& text) { return {reinterpret_cast<std::byte*>(text.data()), DType::kU8, {static_cast<Index>(text.size())}}; }
ConstView view_of(std::string_view text) { return {reinterpret_cast<const std::byte*>(text.data()), DType::kU8, {static_cast<Index>(text.size())}}; }
template <std::size_t n> View view_of(Index (&values)[n]) { return {reinterpret_cast<std::byte*>(values), DType::kI64, {static_cast<Index>(n)}}; }

}  // namespace

std::vector<std::string> all_gather_text(Communicator& comm, std::string_view text) {
  const auto size = static_cast<std::size_t>(comm.size());
  const Index mine = static_cast<Index>(text.size());
  std::vector<Index> counts(size);
  comm.all_gather({reinterpret_cast<const std::byte*>(&mine), DType::kI64, {1}}, {reinterpret_cast<std::byte*>(counts.data()), DType::kI64, {comm.size()}});
  Index total = 0;
  for (const Index count : counts) total = checked_add(total, count);
  std::string all(static_cast<std::size_t>(total), '\0');
  comm.all_gather_v(view_of(text), view_of(all), counts);
  std::vector<std::string> texts;
  std::size_t begin = 0;
  for (const Index count : counts) {
    texts.push_back(all.substr(begin, static_cast<std::size_t>(count)));
    begin += static_cast<std::size_t>(count);
  }
  return texts;
}

std::string broadcast_text(Communicator& comm, std::string_view text, Index root) {
  Index length[] = {static_cast<Index>(text.size())};
  comm.broadcast(view_of(length), root);
  std::string result = comm.rank() == root ? std::string(text) : std::string(static_cast<std::size_t>(length[0]), '\0');
  comm.broadcast(view_of(result), root);
  return result;
}

namespace detail {

Failure current_failure() {
  try {
    throw;
  } catch (const Error& error) {
    return {true, kind_of(error), static_cast<int>(error.code()), error.what()};
  } catch (const std::exception& error) {
    return {true, kPlain, 1, user_message(error)};
  } catch (...) {
    return {true, kPlain, 1, "an exception of an unknown kind"};
  }
}

void throw_failure(const Failure& failure) {
  const std::string& message = failure.message;
  switch (failure.kind) {
    case kConfigKind: throw ConfigError(message);
    case kShapeKind: throw ShapeError(message);
    case kUnsupportedKind: throw UnsupportedError(message);
    case kDataKind: throw DataError(message);
    case kCheckpointKind: throw CheckpointError(message);
    case kCommKind: throw CommError(message);
    case kDeviceKind: throw DeviceError(message);
    case kNumericKind: throw NumericError(message);
    case kFileKind: throw FileError(message);
    case kInternalKind: throw InternalError(message);
    default: throw Error(message, exit_code(failure.code));
  }
}

void throw_if_any_failed(Communicator& comm, const Failure& mine) {
  // The lowest failing rank, or size() if there is none.
  Index first[] = {mine.failed ? comm.rank() : comm.size()};
  comm.all_reduce(view_of(first), Reduce::kMin);
  if (first[0] == comm.size()) return;
  Index kind_and_code[] = {mine.kind, mine.code};
  comm.broadcast(view_of(kind_and_code), first[0]);
  Failure failure{true, narrow<int>(kind_and_code[0]), narrow<int>(kind_and_code[1]), broadcast_text(comm, mine.message, first[0])};
  if (comm.size() > 1) failure.message = fmt::format("rank {}: {}", first[0], failure.message);
  try {
    throw_failure(failure);
  } catch (Error& error) {
    error.set_rank(narrow<int>(first[0]));
    throw;
  }
}

}  // namespace detail
}  // namespace optimus
