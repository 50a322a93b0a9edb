#pragma once
// What the tests of operations share: guarded tensors, comparisons that name the worst element, and OpCase, which runs one operation on
// every backend and element type against the reference in double. Not for the product.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/backend/backend.hpp"

namespace optimus::test {

/// A tensor with its own memory between guard bytes. Without values every bit is set: NaN, or -1.
class Tensor {
 public:
  Tensor(DType dtype, Shape shape);
  Tensor(DType dtype, Shape shape, const std::vector<double>& values);  ///< rounded to dtype
  [[nodiscard]] View view() const;
  operator View() const { return view(); }       // NOLINT: implicit on purpose, tests call operations with tensors
  operator ConstView() const { return view(); }  // NOLINT
  [[nodiscard]] std::vector<double> values() const;
  [[nodiscard]] double operator[](Index i) const { return values()[static_cast<std::size_t>(i)]; }
  void set(Index i, double value) const;
  [[nodiscard]] bool has_intact_guards() const;

 private:
  DType dtype_;
  Shape shape_;
  std::unique_ptr<std::byte[]> memory_;
};

/// Standard normal numbers times `scale`; the same for the same name.
[[nodiscard]] std::vector<double> normal(std::string_view name, Index count, double scale = 1);
/// Integers in [0, n).
[[nodiscard]] std::vector<double> below(std::string_view name, Index count, std::uint64_t n);
/// `value`, `count` times.
[[nodiscard]] std::vector<double> constant(double value, Index count);

/// Fails unless |got - want| <= bound * max(max|want|, scale) for every element (NaN only where NaN is wanted); prints the worst one.
void expect_close(std::string_view what, const std::vector<double>& got, const std::vector<double>& want, double bound, double scale = 0);

/// A backend under test.
struct TestedBackend {
  std::string name;
  std::unique_ptr<Backend> backend;
};
/// ref, and cpu with 1 and 2 threads. Made once.
[[nodiscard]] const std::vector<TestedBackend>& tested_backends();

/// The element type an argument has when the operation runs on a given type.
enum class Kind {
  kData,  ///< that type
  kWide,  ///< f32 for f32 and bf16, f64 for f64
  kF64,
  kI32,
  kI64
};
[[nodiscard]] DType dtype_of_kind(Kind kind, DType data);

inline constexpr Index kAllRows = -1;

/// Largest errors allowed, relative to the largest element of the wanted output, by the type the output is stored in.
struct Bounds {
  double f32 = 2e-6;                  ///< sums of a few hundred products in another order: a few dozen times 2^-24
  double bf16 = 1.01 * 0x1p-8;        ///< the result rounded once is within 2^-8; the hundredth is for the sum's own error next to a tie
  double scale = 0;                   ///< size of the terms of a difference that may come out near 0: errors are relative to it where the output is smaller
  bool same_for_any_threads = false;  ///< 1 and 2 threads must give the same bits
};

/// One call of one operation: its arguments by name, and how to call it.
class OpCase {
 public:
  /// The arguments of one run.
  class Arguments {
   public:
    [[nodiscard]] View operator[](std::string_view name) const;

   private:
    friend class OpCase;
    std::vector<std::string> names_;
    std::vector<Tensor> tensors_;
  };
  using Call = std::function<void(Backend&, const Arguments&)>;

  /// Must not be written. Rows from used_rows on are NaN and must not matter.
  OpCase& in(std::string name, Kind kind, Shape shape, std::vector<double> values, Index used_rows = kAllRows);
  /// Starts as NaN; every element of the first used_rows rows must be written, none after.
  OpCase& out(std::string name, Kind kind, Shape shape, Index used_rows = kAllRows);
  /// Read and written: accumulated into, or the same memory as an input.
  OpCase& in_out(std::string name, Kind kind, Shape shape, std::vector<double> values, Index used_rows = kAllRows);

  /// Runs the call on every tested backend for each type, and compares with the reference on the same values in double.
  void check(const Call& call, const Bounds& bounds = {}, const std::vector<DType>& dtypes = {DType::kF32, DType::kBF16}) const;

 private:
  struct Argument {
    std::string name;
    Kind kind;
    Shape shape;
    std::vector<double> values;
    Index used_rows;
    bool is_written;
  };
  [[nodiscard]] Arguments make(DType data) const;
  [[nodiscard]] Arguments widened(const Arguments& from) const;
  void expect_untouched(const Arguments& before, const Arguments& after) const;
  void expect_results(const Arguments& got, const Arguments& want, const Bounds& bounds) const;
  std::vector<Argument> arguments_;
};

/// A routing of rows, and its plan by the reference, as arguments of a case: "segments", "input_indices", "row_offsets", "output_indices", "selected_k".
struct Routed {
  Index num_rows = 0, num_experts = 0, top_k = 0, expert_begin = 0, expert_end = 0;
  std::vector<double> index;  ///< [T, K]
  std::vector<double> segments, input_indices, row_offsets, output_indices, selected_k;
  [[nodiscard]] Index num_slots() const { return static_cast<Index>(segments.back()); }
  [[nodiscard]] Index capacity() const { return num_rows * top_k; }
};
/// Random distinct choices among the experts [0, busy_experts) of num_experts, and the plan of the local ones.
[[nodiscard]] Routed random_routing(Index num_rows, Index num_experts, Index top_k, Index busy_experts, Index expert_begin, Index expert_end);
void add_plan(OpCase& op, const Routed& routed);
[[nodiscard]] DispatchPlan plan_of(const OpCase::Arguments& arguments);

}  // namespace optimus::test
