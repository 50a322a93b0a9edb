#include "optimus/train/config_docs.hpp"

#include "optimus/config/config.hpp"
#include "optimus/train/run_config.hpp"

namespace optimus {

std::string config_reference() {
  return "# Configuration\n\n"
         "Every key of a run's TOML file with its default. Made by `optimus config-docs > docs/config.md`; do not edit it by hand.\n"
         "`--set table.key=value` overrides a key on the command line. Sizes are counts, times are seconds.\n" +
         document_config<RunConfig>();
}

}  // namespace optimus
