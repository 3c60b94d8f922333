#!/usr/bin/env bash
# Makes the virtual environment that every make target runs in: `setup_venv.sh DIR`.
#
# Does nothing when DIR/.setup already names the wanted state: a digest of the pinned requirements
# and of pyproject.toml. It is written last, so an interrupted run is simply done again.
set -euo pipefail

venv=$1
cd "$(dirname "${BASH_SOURCE[0]}")/.."

find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3.11 python3 python3.12 python3.13 python3.14; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
      >/dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done
  echo "Headrace needs Python 3.11 or later with the venv module, and none was found." >&2
  echo "Install it (Debian: apt-get install python3 python3-venv) or name one: make PYTHON=... setup" >&2
  return 1
}

python=$(find_python)
wanted=$("$python" - requirements/dev.txt pyproject.toml tools/setup_venv.sh <<'PY'
import hashlib, pathlib, sys

digest = hashlib.sha256()
for name in sys.argv[1:]:
    digest.update(pathlib.Path(name).read_bytes())
print(digest.hexdigest())
PY
)

if [[ -f $venv/.setup && $(<"$venv/.setup") == "$wanted" ]]; then
  exit 0
fi

# A virtual environment whose interpreter is gone (a moved folder, an upgraded system) is useless.
if [[ -e $venv ]] && ! "$venv/bin/python" -c '' >/dev/null 2>&1; then
  rm -rf "$venv"
fi
if [[ ! -e $venv ]]; then
  echo "setup: a new virtual environment in $venv with $("$python" --version)"
  "$python" -m venv "$venv"
fi

echo "setup: installing the pinned requirements"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  --require-hashes -r requirements/dev.txt
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  --no-deps --no-build-isolation -e .
echo "$wanted" >"$venv/.setup"
echo "setup: done"
