#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/backend/ref/ref_backend.hpp"
#include "tests/support/ops_testing.hpp"

namespace optimus::test {
namespace {

bool are_same_bytes(ConstView a, ConstView b) {
  return a.bytes() == b.bytes() && (a.bytes() == 0 || std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.bytes())) == 0);
}

Index used_rows_of(Index used_rows, const Shape& shape) { return used_rows == kAllRows ? shape[0] : used_rows; }

}  // namespace

const std::vector<TestedBackend>& tested_backends() {
  static const std::vector<TestedBackend> backends = [] {
    std::vector<TestedBackend> list;
    list.push_back({"ref", make_ref_backend()});
    list.push_back({"cpu, 1 thread", make_cpu_backend(1)});
    list.push_back({"cpu, 2 threads", make_cpu_backend(2)});
    return list;
  }();
  return backends;
}

DType dtype_of_kind(Kind kind, DType data) {
  switch (kind) {
    case Kind::kData: return data;
    case Kind::kWide: return data == DType::kF64 ? DType::kF64 : DType::kF32;
    case Kind::kF64: return DType::kF64;
    case Kind::kI32: return DType::kI32;
    case Kind::kI64: return DType::kI64;
  }
  throw InternalError("[test] kind of argument");
}

View OpCase::Arguments::operator[](std::string_view name) const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == name) return tensors_[i].view();
  }
  throw InternalError("[test] no argument named " + std::string(name));
}

OpCase& OpCase::in(std::string name, Kind kind, Shape shape, std::vector<double> values, Index used_rows) {
  if (used_rows != kAllRows) {
    for (Index i = used_rows * shape.count_from(1); i < shape.count(); ++i) values[static_cast<std::size_t>(i)] = std::numeric_limits<double>::quiet_NaN();
  }
  arguments_.push_back({std::move(name), kind, shape, std::move(values), used_rows, false});
  return *this;
}

OpCase& OpCase::out(std::string name, Kind kind, Shape shape, Index used_rows) {
  arguments_.push_back({std::move(name), kind, shape, {}, used_rows, true});
  return *this;
}

OpCase& OpCase::in_out(std::string name, Kind kind, Shape shape, std::vector<double> values, Index used_rows) {
  in(std::move(name), kind, shape, std::move(values), used_rows);
  arguments_.back().is_written = true;
  return *this;
}

OpCase::Arguments OpCase::make(DType data) const {
  Arguments made;
  for (const Argument& a : arguments_) {
    const DType dtype = dtype_of_kind(a.kind, data);
    made.names_.push_back(a.name);
    made.tensors_.push_back(a.values.empty() ? Tensor(dtype, a.shape) : Tensor(dtype, a.shape, a.values));
  }
  return made;
}

OpCase::Arguments OpCase::widened(const Arguments& from) const {
  Arguments made;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    made.names_.push_back(arguments_[i].name);
    made.tensors_.emplace_back(dtype_of_kind(arguments_[i].kind, DType::kF64), arguments_[i].shape, from.tensors_[i].values());
  }
  return made;
}

void OpCase::expect_untouched(const Arguments& before, const Arguments& after) const {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const Argument& a = arguments_[i];
    const ConstView old_view = before.tensors_[i], new_view = after.tensors_[i];
    EXPECT_TRUE(after.tensors_[i].has_intact_guards()) << a.name << ": memory around it was written";
    const Index first = a.is_written ? used_rows_of(a.used_rows, a.shape) : 0;
    EXPECT_TRUE(are_same_bytes(old_view.rows(first, a.shape[0]), new_view.rows(first, a.shape[0])))
        << a.name << (a.is_written ? ": rows beyond those in use were written" : ": an input was written");
  }
}

void OpCase::expect_results(const Arguments& got, const Arguments& want, const Bounds& bounds) const {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const Argument& a = arguments_[i];
    if (!a.is_written) continue;
    const DType dtype = got.tensors_[i].view().dtype();
    const bool is_exact = dtype == DType::kI32 || dtype == DType::kI64;
    const double bound = is_exact ? 0 : dtype == DType::kBF16 ? bounds.bf16 : bounds.f32;
    std::vector<double> got_values = got.tensors_[i].values(), want_values = want.tensors_[i].values();
    const auto used = static_cast<std::size_t>(used_rows_of(a.used_rows, a.shape) * a.shape.count_from(1));
    got_values.resize(used);
    want_values.resize(used);
    expect_close(fmt::format("{} {} {}", a.name, dtype_name(dtype), a.shape.str()), got_values, want_values, bound, bounds.scale);
  }
}

void OpCase::check(const Call& call, const Bounds& bounds, const std::vector<DType>& dtypes) const {
  const auto oracle = make_ref_backend();
  for (const DType data : dtypes) {
    const Arguments start = make(data), want = widened(start);
    call(*oracle, want);
    std::vector<Arguments> results;
    for (const TestedBackend& tested : tested_backends()) {
      SCOPED_TRACE(fmt::format("{} on {}", tested.name, dtype_name(data)));
      Arguments got = make(data);
      call(*tested.backend, got);
      expect_untouched(start, got);
      expect_results(got, want, bounds);
      results.push_back(std::move(got));
    }
    for (std::size_t i = 2; bounds.same_for_any_threads && i < results.size(); ++i) {
      for (std::size_t j = 0; j < arguments_.size(); ++j) {
        EXPECT_TRUE(are_same_bytes(results[1].tensors_[j].view(), results[i].tensors_[j].view()))
            << arguments_[j].name << " on " << dtype_name(data) << ": " << tested_backends()[1].name << " and " << tested_backends()[i].name << " differ";
      }
    }
  }
}

}  // namespace optimus::test
