# shellcheck shell=bash
# Makes a program of every collective on every type in every tense, of two templates. Sourced, never run.

# shellcheck source=../templates.sh
source "$project/fortran/templates.sh"

# What is added up, how, and what is alike.
of_test_type() {
    local value=k combined="+" same="==" sum=circulant_sum
    [[ $1 != int* ]] || value="int(k, $1)"
    [[ $1 != logical* ]] || value="mod(k, 2) == 0" combined=".neqv." same=".eqv." sum=circulant_logical_xor
    sed -e "s/{value}/$value/; s/{combined}/$combined/; s/{same}/$same/g; s/{sum}/$sum/" | of_type "$1"
}

every() {
    local templates=$project/fortran/tests type tense
    cat "$templates/every_module.f90.in"
    for type in "${types[@]}"; do
        of_test_type "$type" <"$templates/every_type.f90.in"
        for tense in "${tenses[@]}"; do in_tense "$tense" <"$templates/every_tense.f90.in" | of_test_type "$type"; done
    done
    echo "end module every"
    echo
    echo "program every_collective"
    echo "    use every"
    echo "    implicit none"
    echo
    echo "    call begin()"
    for type in "${types[@]}"; do
        for tense in "${tenses[@]}"; do
            echo "    call scalars${tense}_$type()"
            for elements in 0 1 7 2000; do
                echo "    call vectors${tense}_$type($elements)"
                echo "    call alike${tense}_$type($elements)"
                echo "    call of_any_sizes${tense}_$type($elements)"
            done
        done
    done
    echo "    call circulant_finalize(world)"
    echo "end program every_collective"
}
