#include "optimus/train/tensorboard.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <fstream>

#include "optimus/base/error.hpp"

namespace optimus {
namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0 ? 0x82f63b78U : 0U);
    table[i] = value;
  }
  return table;
}
constexpr auto kCrcTable = make_crc_table();

template <class T> void put_raw(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>((value & 0x7f) | 0x80));
  out.push_back(static_cast<char>(value));
}

/// Protobuf wire types.
enum : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
void put_tag(std::string& out, std::uint64_t field, std::uint64_t wire_type) { put_varint(out, field << 3 | wire_type); }
void put_bytes(std::string& out, std::uint64_t field, std::string_view bytes) {
  put_tag(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

/// Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
std::string event_head(double wall_time) {
  std::string event;
  put_tag(event, 1, kFixed64);
  put_raw(event, wall_time);
  return event;
}
void put_step(std::string& event, Index step) {
  put_tag(event, 2, kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
}

double now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) crc = kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xffU] ^ (crc >> 8);
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8U; }

std::string event_record(std::string_view event) {
  std::string length, record;
  put_raw(length, static_cast<std::uint64_t>(event.size()));
  record = length;
  put_raw(record, masked_crc32c(length));
  record += event;
  put_raw(record, masked_crc32c(event));
  return record;
}

std::string version_event(double wall_time) {
  std::string event = event_head(wall_time);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string session_start_event(double wall_time, Index step) {
  std::string event = event_head(wall_time), session;
  put_step(event, step);
  put_tag(session, 1, kVarint);  // SessionLog.status = START
  put_varint(session, 1);
  put_bytes(event, 7, session);
  return event;
}

std::string scalars_event(double wall_time, Index step, std::span<const Scalar> scalars) {
  std::string event = event_head(wall_time), summary;
  put_step(event, step);
  for (const auto& [tag, number] : scalars) {
    std::string value;
    put_bytes(value, 1, tag);
    put_tag(value, 2, kFixed32);  // Summary.Value.simple_value
    put_raw(value, static_cast<float>(number));
    put_bytes(summary, 1, value);
  }
  put_bytes(event, 5, summary);
  return event;
}

EventFile::EventFile(const std::filesystem::path& run_dir, Index first_step) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const double now = now_s();
  // The process id keeps two starts within one second apart.
  path_ = run_dir / fmt::format("events.out.tfevents.{:010d}.{}.{}", static_cast<Index>(now), host.data(), ::getpid());
  append(version_event(now));
  append(session_start_event(now, first_step));
}

void EventFile::add(Index step, std::span<const Scalar> scalars) { append(scalars_event(now_s(), step, scalars)); }

void EventFile::append(std::string_view event) {
  std::error_code code;
  const auto before = std::filesystem::file_size(path_, code);
  const bool is_new = static_cast<bool>(code);
  std::ofstream out(path_, std::ios::binary | std::ios::app);
  out << event_record(event) << std::flush;
  if (out) return;
  const int reason = errno;
  std::filesystem::resize_file(path_, is_new ? 0 : before, code);  // half a record would hide all that follow
  throw FileError(fmt::format("[log] cannot write {}: {}", path_.string(), std::strerror(reason)));
}

}  // namespace optimus
