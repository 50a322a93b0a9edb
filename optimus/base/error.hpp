#pragma once
// The one family of errors. Each kind has the exit code that the program ends with when nothing handles it.

#include <stdexcept>
#include <string>

namespace optimus {

/// What the shell sees. The numbers are part of the interface: schedulers act on them.
enum class ExitCode : int {
  kDone = 0,
  kFailure = 1,           ///< anything without a number of its own: a folder that cannot be written, a full disk, a bug
  kConfig = 2,            ///< usage or configuration
  kData = 3,              ///< data or tokenizer files
  kCheckpoint = 4,        ///< checkpoints and weights
  kNonFinite = 10,        ///< NaN or Inf in loss or gradients
  kLostRank = 11,         ///< a rank died or is stuck
  kStoppedBySignal = 12,  ///< saved, then stopped, as a signal asked
  kNoSpareNode = 13,
};

/// Base of all errors thrown here. The message is what a user reads: "[component] what, with the values; what to change".
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitCode code = ExitCode::kFailure) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const noexcept { return code_; }
  /// The rank that failed, where ranks agreed on an error that not all of them had; -1 if that is not known.
  [[nodiscard]] int rank() const noexcept { return rank_; }
  void set_rank(int rank) noexcept { rank_ = rank; }

 private:
  ExitCode code_;
  int rank_ = -1;
};

/// A key, value or combination in the configuration or on the command line.
struct ConfigError : Error {
  explicit ConfigError(const std::string& message) : Error(message, ExitCode::kConfig) {}
};
/// Two shapes that do not fit each other.
struct ShapeError : Error {
  explicit ShapeError(const std::string& message) : Error(message) {}
};
/// A dtype, kernel or backend that does not exist.
struct UnsupportedError : Error {
  explicit UnsupportedError(const std::string& message) : Error(message) {}
};
/// Corpora, prepared datasets, tokenizers, evaluation requests.
struct DataError : Error {
  explicit DataError(const std::string& message) : Error(message, ExitCode::kData) {}
};
/// Checkpoints and weight files.
struct CheckpointError : Error {
  explicit CheckpointError(const std::string& message) : Error(message, ExitCode::kCheckpoint) {}
};
/// A collective or transfer that failed or ran out of time.
struct CommError : Error {
  explicit CommError(const std::string& message) : Error(message, ExitCode::kLostRank) {}
};
/// An accelerator or a numeric library refused.
struct DeviceError : Error {
  explicit DeviceError(const std::string& message) : Error(message) {}
};
/// NaN or Inf where the policy is to stop.
struct NumericError : Error {
  explicit NumericError(const std::string& message) : Error(message, ExitCode::kNonFinite) {}
};
/// The operating system refused: open, write, rename, a full disk. The message has the path and the system's words.
struct FileError : Error {
  explicit FileError(const std::string& message) : Error(message) {}
};
/// A broken invariant: a bug of ours.
struct InternalError : Error {
  explicit InternalError(const std::string& message) : Error(message) {}
};

}  // namespace optimus
