# shellcheck shell=bash
# What every script in ci/ shares: where things are, and how a script speaks. Sourced, never run.

ci=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(dirname "$ci")
# shellcheck disable=SC2034 # for those that source this
cache=${CIRCULANT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/circulant}
circulant=${CIRCULANT:-${CARGO_TARGET_DIR:-$project/target}/release/circulant}
# rustup writes its path into files which a shell opened before has not read.
[ ! -d "$HOME/.cargo/bin" ] || PATH=$PATH:$HOME/.cargo/bin

# A part that cannot run here exits with this; ci/test counts it as skipped, not as failed.
skipped=77

say() { echo "${0##*/}: $*" >&2; }
die() { say "$*"; exit 1; }
skip() { say "skipped: $*"; exit $skipped; }
usage() { sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$0" >&2; exit 2; } # the script's own head
# A script that ends by an unforeseen failure says where.
set -E
trap 'say "line $LINENO failed: $BASH_COMMAND"' ERR

have() { command -v "$1" >/dev/null 2>&1; }

# The release binary, built once by whoever needs it first.
need_circulant() {
    [ -n "${CIRCULANT:-}" ] || (cd "$project" && cargo build --release --quiet --bin circulant)
    [ -x "$circulant" ] || die "no program at $circulant; build it by: cargo build --release"
}

# Runs a command while no other script that names this file runs one: what it installs, or makes, is theirs, too.
one_at_a_time() { # FILE COMMAND...
    mkdir -p "$(dirname "$1")"
    (flock 9 && "${@:2}" 9>&-) 9>"$1"
}

# Runs functions at the same time, where each by itself would leave a core idle. What each says comes in one piece.
side_by_side() { # FUNCTION...
    local said task tasks=() status=0
    said=$(mktemp -d)
    # Whoever ends it sees how far they have come.
    trap 'kill "${tasks[@]}" 2>/dev/null; cat "$said"/*; rm -rf "$said"; exit 1' INT TERM
    for task in "$@"; do
        "$task" >"$said/$task" 2>&1 &
        tasks+=($!)
    done
    for task in "${tasks[@]}"; do wait "$task" || status=$?; done
    for task in "$@"; do cat "$said/$task"; done
    rm -rf "$said"
    trap - INT TERM
    return $status
}
