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

# A template in a tense. At once the compiler sees to it that arrays are contiguous; later only a check can.
in_tense() {
    local tense=$1 line='\n        '
    local common="type(circulant_comm), intent(in) :: comm" check="call result%within(comm)" memory request whole
    if [ -z "$tense" ]; then
        memory=", contiguous, target"
        request="/^ *{[^{}]*request[^{}]*}$/d; s/{[^{}]*request[^{}]*}//"
        whole="/{whole .*}/d"
    else
        memory=", asynchronous, target"
        request="s/{\([^{}]*request[^{}]*\)}/\1/"
        whole="s/{whole \(.*\)}/call result%whole('\1', is_contiguous(\1))/"
        common+="${line}type(circulant_request), intent(inout) :: request"
        check+="${line}call result%unused(request)"
    fi
    common+="${line}integer, intent(out), optional :: stat"
    common+="${line}character(*), intent(inout), optional :: errmsg"
    common+="${line}type(outcome) :: result"
    sed -e "s/{_tense}/$tense/g; s/{common}/$common/; s/{memory}/$memory/; s/{check}/$check/; $request; $whole"
}

# A template for a type.
of_type() {
    local type=$1 fits="/{fits}/d" rank ranks=
    [ "$type" != logical ] || fits="s/{fits}/call result%logical_only(op)/"
    for rank in {1..7}; do
        ranks+="${ranks:+\\n}            rank ($rank)\\n                call c_f_pointer(start, array, extents)"
    done
    sed -e "s/{type}/$type/g; s/{element}/${element[$type]}/; s/{code}/${code[$type]}/; s/{ranks}/$ranks/; $fits"
}
