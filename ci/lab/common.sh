# shellcheck shell=bash
# What the comparisons with MPI libraries share: what is compared, and how each is measured. Sourced, never run.

# shellcheck source=../common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

lab=$ci/lab
all_collectives=(broadcast reduce allreduce allgather allgatherv reduce_scatter reduce_scatter_block
    scatter gather alltoall barrier)
all_kinds=(regular irregular degenerate)
seconds=${SECONDS_PER_SIZE:-0.8}
# For lab/shm alone, which takes it up.
# shellcheck disable=SC2034 # as it is sourced
given_fresh=${FRESH:-}
unset FRESH

joined() { local IFS=,; echo "$*"; }

known() { # what word choice...
    [[ " ${*:3} " == *" $2 "* ]] || die "no $1 '$2'; there are: ${*:3}"
}

# Sets collectives, kinds and peers by -c, -k and PEERS. What is not chosen stays as it was set before, or
# is all that there are.
read_choices() { # option...
    local chosen="${collectives[*]-${all_collectives[*]}}" chosen_kinds="${kinds[*]-${all_kinds[*]}}" option word
    while getopts c:k:h option; do
        case $option in
        c) chosen=${OPTARG//,/ } ;;
        k) chosen_kinds=${OPTARG//,/ } ;;
        *) usage ;;
        esac
    done
    read -ra collectives <<<"$chosen"
    read -ra kinds <<<"$chosen_kinds"
    read -ra peers <<<"${PEERS-${all_peers[*]}}"
    [ ${#collectives[@]} -gt 0 ] && [ ${#kinds[@]} -gt 0 ] || usage
    for word in "${collectives[@]}"; do known collective "$word" "${all_collectives[@]}"; done
    for word in "${kinds[@]}"; do known kind "$word" "${all_kinds[@]}"; done
    for word in ${peers[@]+"${peers[@]}"}; do known peer "$word" "${all_peers[@]}"; done
    for word in ${SIZES:-}; do
        [[ $word =~ ^[1-9][0-9]*$ ]] && [ "$word" -ge 4 ] || die "no size '$word'; a size is 4 bytes or more"
    done
}

# What an algorithm chosen by hand is in its library's own settings, one a line.
settings() { # collective library/algorithm
    local algorithm=${2#*/} name=${1^^}
    name=${name/BROADCAST/BCAST}
    case $1:$2 in
    *:*/default) ;;
    broadcast:mpich/chain-8k)
        printf 'MPIR_CVAR_BCAST_%s\n' INTRA_ALGORITHM=pipelined_tree TREE_TYPE=kary TREE_KVAL=1 \
            TREE_PIPELINE_CHUNK_SIZE=8192
        ;;
    broadcast:mpich/iring-8k)
        printf 'MPIR_CVAR_%s\n' BCAST_INTRA_ALGORITHM=nb IBCAST_INTRA_ALGORITHM=tsp_ring IBCAST_RING_CHUNK_SIZE=8192
        ;;
    allgatherv:mpich/ring-8k) printf 'MPIR_CVAR_ALLGATHERV_%s\n' INTRA_ALGORITHM=ring PIPELINE_MSG_SIZE=8192 ;;
    *:mpich/?*) echo "MPIR_CVAR_${name}_INTRA_ALGORITHM=$algorithm" ;;
    *:impi/*[!0-9]*) die "no tuned algorithm '$1:$2'; Intel MPI's have numbers" ;;
    *:impi/?*) echo "I_MPI_ADJUST_$name=$algorithm" ;;
    allreduce:openmpi*/segmented_ring-32k) open_mpi allreduce 5 32768 ;;
    allgatherv:openmpi*/ring | reduce_scatter:openmpi*/ring) open_mpi "$1" 3 ;;
    allgatherv:openmpi*/sparbit) open_mpi allgatherv 6 ;;
    alltoall:openmpi*/pairwise) open_mpi alltoall 2 ;;
    *) die "no tuned algorithm '$1:$2'" ;;
    esac
}

open_mpi() { # collective number [segment]
    local words="coll_tuned_priority 100 coll_tuned_use_dynamic_rules 1 coll_tuned_$1_algorithm $2"
    [ $# = 2 ] || words+=" coll_tuned_$1_algorithm_segmentsize $3"
    # shellcheck disable=SC2086 # a list of words
    echo "MCA=$(printf -- '--mca %s %s ' $words)"
}

kinds_of() { # collective
    case $1 in
    allgatherv | reduce_scatter) echo "${kinds[*]}" ;;
    *) echo - ;;
    esac
}

sizes_of() { # collective
    if [ "$1" = barrier ]; then echo 0; else echo "${sizes[*]}"; fi
}

prepare() {
    "$ci/packages" lab build
    need_circulant
    local peer folder
    mkdir -p "$cache/lab"
    cc -O2 -Wall -shared -fPIC -o "$cache/lab/nospin.so" "$lab/nospin.c" -ldl
    for peer in mpich openmpi impi; do
        folder=$("$ci/peers" $peer)
        I_MPI_ROOT=$folder "$folder/bin/mpicc" -O2 -Wall -o "$cache/lab/collectives-$peer" "$lab/collectives.c"
    done
}

measure_circulant() { # where collective...
    local collective
    for collective in "${@:2}"; do each_cell "$collective" measure_circulant_at "$1"; done
}

# Gives a command, one after the other, what there is to measure of a collective: it, kind and size.
each_cell() { # collective command...
    local kind size
    for kind in $(kinds_of "$1"); do
        knows "$1" "$kind" || continue
        for size in $(sizes_of "$1"); do
            "${@:2}" "$1" "$kind" "$size" || say "circulant failed: $1, kind $kind, $size bytes"
        done
    done
}

bench_words() { # collective kind size: what circulant is given, one a line
    printf '%s\n' bench "$1" --format csv
    # That nobody leaves a barrier early is seen on one clock only.
    [ "$1" = barrier ] || echo --check
    [ -z "${REST:-}" ] || printf '%s\n' --rest "$REST"
    [ -z "${fresh:-}" ] || echo --fresh
    [ "$2" = - ] || printf '%s\n' --kind "$2"
    [ "$3" = 0 ] || printf '%s\n' -m "$3:$3"
}

# A usage error (2) of a single process, at the first size, is a name that the program does not have.
knows() { # collective kind
    local words code=0 error
    mapfile -t words < <(bench_words "$1" "$2" "$(sizes_of "$1" | cut -d' ' -f1)")
    error=$(timeout 60 "$circulant" "${words[@]}" 2>&1 >/dev/null) || code=$?
    [ $code != 2 ] || say "circulant, $1, kind $2: not measured: ${error%%$'\n'*}"
    [ $code != 2 ]
}

measure_circulant_at() { # where collective kind size
    local words rows
    mapfile -t words < <(bench_words "${@:2}")
    # Kept back until the program ended well: only then the result was right.
    # shellcheck disable=SC2086 # a list of words
    rows=$(timeout 120 "$lab/launch" circulant "$1" "$circulant" "${words[@]}" ${CIRCULANT_ARGS:-} |
        grep '^circulant,') && echo "$rows"
}

# Collectives in one start of the library.
measure_peer() { # where library/algorithm collective...
    local cells=0 collective kind size words
    for collective in "${@:3}"; do
        for kind in $(kinds_of "$collective"); do
            for size in $(sizes_of "$collective"); do cells=$((cells + 1)); done
        done
    done
    mapfile -t words < <(settings "$3" "$2")
    timeout $((60 + 20 * cells)) env ${fresh:+FRESH=1} "${words[@]}" "$lab/launch" "${2%%/*}" "$1" \
        "$cache/lab/collectives-${2%%[-/]*}" "$2" "$seconds" "${REST:-0}" "$(joined "${@:3}")" "$(joined "${kinds[@]}")" \
        "$(joined "${sizes[@]}")" | grep "^${2%%/*}," |
        if [[ $1 = here:* ]]; then sed -E 's/^(([^,]*,){5})[^,]*/\11/'; else cat; fi # those are of one node
}

# All rounds, and as many again of what is missed by these, or was not measured: all kinds of it, as some are judged beside each
# other. Needs `measure P` and `report P ROWS MISSED`, which adds what was missed to a file, each as "collective size".
measure_rounds() { # p rows
    local round missed_cells=${2%.csv}.missed
    for ((round = 1; round <= rounds; round++)); do
        say "p = $1, round $round of $rounds: circulant, ${peers[*]-}${tuned[*]+ ${tuned[*]}}"
        measure "$1"
    done >"$2"
    : >"$missed_cells"
    report "$1" "$2" "$missed_cells" >/dev/null || true
    sort -uo "$missed_cells" "$missed_cells"
    for ((round = 1; round <= rounds; round++)); do
        [ -s "$missed_cells" ] || break
        say "p = $1, again, round $round of $rounds: $(paste -sd, "$missed_cells" | sed 's/,/, /g')"
        measure_cells "$1" "$missed_cells"
    done >>"$2"
    rm "$missed_cells"
}

measure_cells() { # p cells
    local cell
    # Not from the standard input, which is that of what is started, too.
    while read -ru 3 -a cell; do measure_only "$1" "${cell[@]}"; done 3<"$2"
}

measure_only() { # p collective size
    local collectives=("$2")
    [ "$3" = 0 ] || local sizes=("$3")
    measure "$1"
}

# Of tables in awk, with the variables collective and p: a size as people write it, and what equal shares
# of whole ints leave of one.
# shellcheck disable=SC2034 # for those that source this
sizes_awk='
    function human(b) { return b >= 1048576 ? b / 1048576 " MiB" : b >= 1024 ? b / 1024 " KiB" : b " B" }
    function used(b) {
        if (collective !~ /^(allgather|reduce_scatter_block|scatter|gather|alltoall)$/) return 4 * int(b / 4)
        return 4 * p * (b < 4 * p ? 1 : int(b / 4 / p))
    }'

# Of numbers in one string, which `ranked` sorts into an array.
# shellcheck disable=SC2034 # as above
ranked_awk='
    function ranked(times, all,    n, i, j, t) {
        n = split(times, all, " ")
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && all[j - 1] + 0 > all[j] + 0; j--) { t = all[j]; all[j] = all[j - 1]; all[j - 1] = t }
        return n
    }
    function median(times,    all, n) {
        n = ranked(times, all)
        return n % 2 ? all[(n + 1) / 2] : (all[n / 2] + all[n / 2 + 1]) / 2
    }
    # The first that a quarter of all do not exceed.
    function quartile(times,    all, n) {
        n = ranked(times, all)
        return all[int((n + 3) / 4)]
    }
'
