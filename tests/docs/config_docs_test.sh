#!/usr/bin/env bash
# docs/config.md has to be what the program prints.
set -euo pipefail
program=$1 file=$2
if ! diff -u "$file" <("$program" config-docs); then
  echo "FAILED: $file is out of date; run: build/optimus config-docs > docs/config.md"
  exit 1
fi
