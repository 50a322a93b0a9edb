// A pipeline of all ranks in which one stage goes wrong:  PROGRAM KIND STAGE SCHEDULE OVERLAP;  ends as the real program would.

#include <unistd.h>

#include <cstdio>
#include <string>

#include "optimus/comm/mpi/environment.hpp"
#include "optimus/pipeline/executor.hpp"

namespace {

using namespace optimus;
using namespace optimus::pipeline;

struct Fault {
  std::string kind;
  Index stage = 0;
};

/// Goes wrong with micro-batch 2.
class FaultyWork : public StageWork {
 public:
  FaultyWork(const Fault& fault, Index stage) : fault_(fault), is_faulty_(stage == fault.stage) {}
  void forward(const Action& a, const StageMessage&, const StageMessage& sent) override {
    maybe_fail(a, "forward");
    fill(sent);
  }
  void backward(const Action& a, const StageMessage&, const StageMessage& sent) override {
    maybe_fail(a, "backward");
    fill(sent);
  }
  void backward_input(const Action& a, const StageMessage&, const StageMessage& sent) override {
    maybe_fail(a, "input");
    fill(sent);
  }
  void backward_weight(const Action& a) override { maybe_fail(a, "weight"); }

 private:
  void maybe_fail(const Action& a, const std::string& where) const {
    if (!is_faulty_ || a.micro_batch != 2) return;
    if (fault_.kind == where) throw DataError("[toy] micro-batch 2 is torn in " + where);
    while (fault_.kind == "hang" && where == "forward") pause();
  }
  static void fill(const StageMessage& sent) {
    if (!sent.rows.exists()) return;
    for (float& value : sent.rows.span<float>()) value = 1;
  }
  Fault fault_;
  bool is_faulty_;
};

}  // namespace

int main(int, char** argv) {
  const Fault fault{argv[1], std::stoll(argv[2])};
  MpiEnvironment mpi;
  mpi.set_time_limit(fault.kind == "hang" ? 0.5 : 30);
  int code = 0;
  {
    const auto world = mpi.world();
    world->set_context("step 3");
    try {
      // Rows too long to be sent without the receiver's help.
      const MessageFormats formats{.forward = {DType::kF32, {64, 1024}, 0}, .backward = {DType::kF32, {64, 1024}, 0}};
      Executor executor(build_schedule({argv[3], world->size(), 1, 6}), *world, formats, argv[4] == std::string("on"));
      FaultyWork work(fault, world->rank());
      executor.run(work);
      world->barrier();
    } catch (const Error& error) {
      world->announce_failure();
      code = static_cast<int>(error.code());
      std::fprintf(stderr, "<rank %d ends with %d: %s>\n", static_cast<int>(world->rank()), code, error.what());
    }
  }
  mpi.finish(code, 2);
  return code;
}
