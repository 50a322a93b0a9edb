#!/usr/bin/env bash
# A small tree with one breach of each kind: scripts/check_layers has to find every one of them, and nothing else.
set -euo pipefail
check_layers=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"

put() { mkdir -p "$(dirname "$1")"; printf '%s\n' "${@:2}" > "$1"; }
fail() { echo "FAILED: $1"; echo "$output"; exit 1; }
expect() { [[ "$output" == *"$1"* ]] || fail "nothing said about: $1"; }

put layers.txt "base optimus/base: " "comm optimus/comm: base" "comm_mpi optimus/comm/mpi: comm" "ops optimus/ops: base" "config optimus/config: base" \
  "backend_cpu optimus/backend/cpu: base"
put optimus/base/a.hpp '#include <vector>' '// #include "optimus/ops/a.hpp" in a comment is text'
put optimus/comm/a.hpp '#include "optimus/base/a.hpp"'
put optimus/comm/mpi/a.cpp '#include <mpi.h>' '#include "optimus/comm/a.hpp"' '#include "optimus/base/a.hpp"'
put optimus/config/a.cpp '#include <toml++/toml.h>'
put optimus/backend/cpu/a.cpp '#include <dnnl.hpp>' '#include <oneapi/dnnl/dnnl.hpp>'
put optimus/ops/a.hpp '#include "optimus/base/a.hpp"' '#include "optimus/ops/b.hpp"'
put apps/optimus/main.cpp '#include "optimus/ops/a.hpp"'
put tests/unit/a_test.cpp '#include "optimus/comm/a.hpp"' '#include <mpi.h>'
output=$("$check_layers" . layers.txt) || fail "a good tree was refused"
expect "8 files keep to their layers"

put optimus/base/upwards.cpp '' '#include "optimus/ops/a.hpp"'
put optimus/ops/sideways.cpp '#  include "optimus/comm/a.hpp"'
put optimus/comm/down.cpp '#include "optimus/comm/mpi/a.hpp"'
put optimus/comm/mpi_leak.hpp '#include <mpi.h>'
put optimus/base/toml_leak.hpp '#include <toml++/toml.h>'
put apps/optimus/dnnl_leak.cpp '#include "dnnl.hpp"'
put optimus/ops/cuda_leak.cpp '#include <cuda_runtime.h>'
put optimus/ops/ghost.cpp '#include "optimus/ghost/a.hpp"'
put optimus/stray/a.cpp '#include <vector>'
if output=$("$check_layers" . layers.txt); then fail "a bad tree was accepted"; fi
expect "optimus/base/upwards.cpp:2: optimus/base may not include optimus/ops"
expect "optimus/ops/sideways.cpp:1: optimus/ops may not include optimus/comm"
expect "optimus/comm/down.cpp:1: optimus/comm may not include optimus/comm/mpi"
expect "optimus/comm/mpi_leak.hpp:1: <mpi.h> belongs to optimus/comm/mpi/ only"
expect "optimus/base/toml_leak.hpp:1: <toml++/toml.h> belongs to optimus/config/ only"
expect "apps/optimus/dnnl_leak.cpp:1: <dnnl.hpp> belongs to optimus/backend/cpu/ only"
expect "optimus/ops/cuda_leak.cpp:1: <cuda_runtime.h> belongs to"
expect "optimus/ops/ghost.cpp:1: optimus/ghost/a.hpp is in no declared folder"
expect "optimus/stray/a.cpp:1: is in no declared folder"
expect "check_layers: 9 problems"
