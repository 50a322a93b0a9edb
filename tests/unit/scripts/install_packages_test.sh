#!/usr/bin/env bash
# scripts/install_packages on pretended machines: everything installed, nothing installed and no rights, nothing installed and sudo.
set -euo pipefail
install_packages=$1
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
for tool in bash env awk dirname sed; do ln -s "$(command -v $tool)" "$bin/$tool"; done

pretend() { printf '#!%s\n%s\n' "$(command -v bash)" "$2" > "$bin/$1"; chmod +x "$bin/$1"; }
run() { output=$(PATH=$bin "$install_packages" "$@" 2>&1) && status=0 || status=$?; }
fail() { echo "FAILED: $1 (exit $status)"; echo "$output"; exit 1; }

pretend id 'echo 1000'
pretend dpkg-query 'echo -n installed'
run build test
[ $status = 0 ] && [ -z "$output" ] || fail "with everything installed it did something"

pretend dpkg-query 'exit 1'
run build
[ $status = 1 ] && [[ "$output" == *"as root or with sudo"* && "$output" == *"apt-get install g++ cmake"* ]] || fail "without rights it does not say what to do"
[[ "$output" != *clang-tidy* ]] || fail "it wants packages that nobody asked for"

pretend sudo 'echo "sudo $*"'
run build lint
[ $status = 0 ] && [[ "$output" == *"sudo apt-get update"* && "$output" == *"sudo env DEBIAN_FRONTEND=noninteractive apt-get install"*"g++"*"clang-tidy-19"* ]] || fail "it does not install with sudo"

pretend sudo 'exit 100'
run build
[ $status != 0 ] || fail "a failed installation passed as done"

run nonsense
[ $status = 2 ] && [[ "$output" == *"nothing is listed for 'nonsense'"* ]] || fail "it takes any word"
