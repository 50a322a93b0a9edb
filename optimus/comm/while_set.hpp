#pragma once
// Keeps code from being entered a second time while it runs, exceptions included.

namespace optimus {

/// `flag` is true from construction to the end of the scope.
class WhileSet {
 public:
  explicit WhileSet(bool& flag) : flag_(flag) { flag_ = true; }
  ~WhileSet() { flag_ = false; }
  WhileSet(const WhileSet&) = delete;
  WhileSet& operator=(const WhileSet&) = delete;

 private:
  bool& flag_;
};

}  // namespace optimus
