#include "optimus/base/random.hpp"

#include <cmath>
#include <numbers>
#include <string>

#include "optimus/base/hash.hpp"

namespace optimus {
namespace {

struct HighLow {
  std::uint32_t high, low;
};

HighLow multiply(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = std::uint64_t{a} * b;
  return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}

double to_unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

// Two uniform numbers make two normal ones:  r = sqrt(-2 ln u),  (r cos(2 pi v), r sin(2 pi v)).
struct Polar {
  double radius, angle;
};

Polar box_muller(std::uint64_t first, std::uint64_t second) {
  const double u = static_cast<double>((first >> 11) + 1) * 0x1p-53;  // (0, 1]: the logarithm is finite
  return {std::sqrt(-2.0 * std::log(u)), 2.0 * std::numbers::pi * to_unit(second)};
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const HighLow a = multiply(0xD2511F53U, counter[0]), b = multiply(0xCD9E8D57U, counter[2]);
    counter = {b.high ^ counter[1] ^ key[0], b.low, a.high ^ counter[3] ^ key[1], a.low};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

RandomStream::RandomStream(std::uint64_t seed, std::string_view purpose, std::string_view name) {
  std::string text;
  for (int byte = 0; byte < 8; ++byte) text += static_cast<char>(seed >> (8 * byte));
  text.append(purpose).append(1, '\0').append(name);
  const std::uint64_t hash = xxh64(text);
  key_ = {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)};
}

std::array<std::uint64_t, 2> RandomStream::pair(std::uint64_t block) const {
  const auto words = philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key_);
  return {std::uint64_t{words[1]} << 32 | words[0], std::uint64_t{words[3]} << 32 | words[2]};
}

std::uint64_t RandomStream::bits(Index i) const {
  const auto position = static_cast<std::uint64_t>(i);
  return pair(position / 2)[position % 2];
}

double RandomStream::uniform(Index i) const { return to_unit(bits(i)); }

float RandomStream::normal(Index i) const {
  const auto position = static_cast<std::uint64_t>(i);
  const auto [first, second] = pair(position / 2);
  const Polar p = box_muller(first, second);
  return static_cast<float>(p.radius * (position % 2 == 0 ? std::cos(p.angle) : std::sin(p.angle)));
}

void RandomStream::fill_normal(Index begin, std::span<float> values) const {
  const auto count = static_cast<Index>(values.size());
  Index done = 0;
  const auto put = [&](double value) { values[static_cast<std::size_t>(done++)] = static_cast<float>(value); };
  if (begin % 2 != 0 && count > 0) put(normal(begin));
  while (done + 1 < count) {
    const auto [first, second] = pair(static_cast<std::uint64_t>(begin + done) / 2);
    const Polar p = box_muller(first, second);
    put(p.radius * std::cos(p.angle));
    put(p.radius * std::sin(p.angle));
  }
  if (done < count) put(normal(begin + done));
}

std::uint64_t RandomStream::below(Index i, std::uint64_t n) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((Wide{bits(i)} * n) >> 64);
}

}  // namespace optimus
