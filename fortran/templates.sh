# shellcheck shell=bash
# What the templates *.f90.in are filled in with: the tenses and the types. Sourced, never run.

tenses=("" _start _prepare)
types=(int8 int16 int32 int64 real32 real64 complex_real32 complex_real64 logical logical_c_bool)
declare -A element=(
    [int8]="integer(int8)" [int16]="integer(int16)" [int32]="integer(int32)" [int64]="integer(int64)"
    [real32]="real(real32)" [real64]="real(real64)"
    [complex_real32]="complex(real32)" [complex_real64]="complex(real64)"
    [logical]="logical" [logical_c_bool]="logical(c_bool)"
)
# A logical of the default kind is an integer in C, 0 or not.
declare -A code=(
    [int8]=circulant_int8 [int16]=circulant_int16 [int32]=circulant_int32 [int64]=circulant_int64
    [real32]=circulant_float [real64]=circulant_double
    [complex_real32]=circulant_complex_float [complex_real64]=circulant_complex_double
    [logical]=circulant_int32 [logical_c_bool]=circulant_bool
)

# The kinds of the integers that say how long parts are.
kinds=(int32 int64)

# A template in a tense. At once arrays that are not contiguous are copied; later they can only be refused. The compiler
# makes the copies, but not of what is optional, where gfortran (12) also follows the null address of what is not there.
in_tense() {
    local tense=$1 line='\n        ' deep='\n            '
    local common="type(circulant_comm), intent(in) :: comm" check="call result%within(comm)"
    local sized="call result%sized('\\1', size(\\1, kind=c_size_t))" memory anywhere request whole copy
    if [ -z "$tense" ]; then
        memory=", contiguous, target"
        anywhere=", target"
        request="/^ *{[^{}]*request[^{}]*}$/d; s/{[^{}]*request[^{}]*}//"
        whole="s/{whole \(.*\)}/$sized/"
        copy="s/{copy}/{element}, allocatable, target :: copy(:)/"
        copy+="; s/{place \(.*\)}/$sized${deep}call lay_out_{type}(\1, copy, place)/"
        copy+="; s/{put back \(.*\)}/if (allocated(copy)) call put_back_{type}(copy, \1)/"
    else
        memory=", asynchronous, target"
        anywhere=$memory
        request="s/{\([^{}]*request[^{}]*\)}/\1/"
        whole="s/{whole \(.*\)}/$sized${line}call result%whole('\1', is_whole_{type}(\1))/"
        copy="/{copy}/d; /{put back .*}/d"
        copy+="; s/{place \(.*\)}/$sized${deep}call result%whole('\1', is_whole_{type}(\1))${deep}place = c_loc(\1)/"
        common+="${line}type(circulant_request), intent(inout) :: request"
        check+="${line}call result%unused(request)"
    fi
    common+="${line}integer, intent(out), optional :: stat"
    common+="${line}character(*), intent(inout), optional :: errmsg"
    common+="${line}type(outcome) :: result"
    sed -e "s/{_tense}/$tense/g; s/{common}/$common/; s/{memory}/$memory/; s/{anywhere}/$anywhere/; s/{check}/$check/" \
        -e "$request; $whole; $copy"
}

# A template for a type.
of_type() {
    local type=$1
    in_every_rank | sed -e "s/{type}/$type/g; s/{element}/${element[$type]}/; s/{code}/${code[$type]}/"
}

# A template for a kind of counts.
of_kind() { sed "s/{kind}/$1/g"; }

# A statement for arrays of each rank: {to rank LAST: STATEMENT}, within a select rank. {:} stands for `:` and a comma in
# all dimensions but the last.
in_every_rank() {
    awk '!/{to rank [0-9]+: .*}$/ { print; next }
        {
            indent = statement = $0
            sub(/{.*/, "", indent)
            sub(/^[^:]*: /, "", statement)
            sub(/}$/, "", statement)
            for (rank = 1; rank <= $3 + 0; rank++) {
                one = statement
                gsub(/{:}/, all_but_last, one)
                printf "%srank (%d)\n%s    %s\n", indent, rank, indent, one
                all_but_last = all_but_last ":, "
            }
            all_but_last = ""
        }'
}
