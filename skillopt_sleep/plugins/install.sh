#!/bin/sh
# Installs SkillOpt Sleep for agent programs: sh install.sh claude codex ...
# Takes it away again:                        sh install.sh --uninstall claude codex ...
# PYTHON names the interpreter (3.10 or newer); without it, the first that fits is used.
set -eu

action=install
if [ "${1:-}" = "--uninstall" ]; then
  action=uninstall
  shift
fi
if [ "$#" -eq 0 ]; then
  echo "usage: sh install.sh [--uninstall] AGENT... (claude codex copilot cursor devin gemini openclaw opencode qwen)" >&2
  exit 2
fi

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }
has() { "$1" -c 'import skillopt_sleep' 2>/dev/null; }

python=${PYTHON:-}
if [ -z "$python" ]; then
  for candidate in python3 python python3.14 python3.13 python3.12 python3.11 python3.10; do
    if command -v "$candidate" >/dev/null 2>&1 && fits "$candidate"; then
      if has "$candidate"; then python=$candidate; break; fi
      [ -n "$python" ] || python=$candidate
    fi
  done
fi
if [ -z "$python" ] || ! fits "$python"; then
  echo "error: Python 3.10 or newer is needed; name it: PYTHON=/path/to/python sh install.sh ..." >&2
  exit 1
fi

if ! has "$python"; then
  root=$(cd -P "$(dirname "$0")/../.." && pwd)
  if [ ! -f "$root/pyproject.toml" ]; then
    echo "error: $python does not have skillopt; install it first, or name another: PYTHON=..." >&2
    exit 1
  fi
  home=${SKILLOPT_SLEEP_HOME:-$HOME/.skillopt-sleep}
  "$python" -m venv "$home/venv"
  python=$home/venv/bin/python
  has "$python" || "$python" -m pip install --quiet "$root[sleep]"
fi
exec "$python" -m skillopt_sleep "$action" "$@"
