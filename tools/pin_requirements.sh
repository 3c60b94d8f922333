#!/usr/bin/env bash
# Pins the dependencies of pyproject.toml with hashes: `pin_requirements.sh BIN [--upgrade]`.
#
# The pins must say nothing of the machine that made them, so no index, host or folder of wheels
# is written into them, and pip is asked to forget a configured folder of wheels altogether.
set -euo pipefail

bin=$1
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p requirements
unset PIP_FIND_LINKS
export CUSTOM_COMPILE_COMMAND="make requirements"

pin() {
  local output=$1
  shift
  echo "pinning $output"
  "$bin/pip-compile" --quiet --generate-hashes --allow-unsafe --strip-extras \
    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
    --resolver backtracking --output-file "$output" "$@" pyproject.toml
}

pin requirements/core.txt "$@"
pin requirements/pipeline.txt --extra pipeline --constraint requirements/core.txt "$@"
pin requirements/dev.txt --extra dev --extra pipeline --constraint requirements/core.txt "$@"
