!> How a call ends: what is wrong with its arguments, or what the C library says; told by `stat` and `errmsg`, or by an
!> end of the program, as `allocate` does it.
module circulant_outcome
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int32, int64
    use circulant_handles
    implicit none
    private
    public :: circulant_error_name, circulant_version

    !> The first thing that is wrong; what is asked after it changes nothing.
    type, public :: outcome
        private
        integer :: code = circulant_ok
        !> The library's sentences begin with the call's name.
        logical :: is_named = .false.
        character(:), allocatable :: sentence
    contains
        procedure :: good
        procedure :: give
        procedure :: complain
        procedure :: finish
        procedure :: within
        procedure :: has
        procedure :: reaches
        procedure :: divides
        procedure :: sized
        procedure :: whole
        procedure :: unused
        procedure :: fits
        procedure :: take_int32
        procedure :: take_int64
    end type

    interface
        function c_error_message() bind(c, name='circulant_error_message') result(text)
            import
            type(c_ptr) :: text
        end function

        pure function c_error_name(code) bind(c, name='circulant_error_name') result(text)
            import
            integer(c_int), value, intent(in) :: code
            type(c_ptr) :: text
        end function

        pure function c_version() bind(c, name='circulant_version') result(text)
            import
            type(c_ptr) :: text
        end function

        pure function strlen(text) bind(c) result(length)
            import
            type(c_ptr), value, intent(in) :: text
            integer(c_size_t) :: length
        end function
    end interface

contains

    !> Whether nothing is wrong so far.
    pure function good(self) result(is_good)
        class(outcome), intent(in) :: self
        logical :: is_good

        is_good = self%code == circulant_ok
    end function

    !> Takes what a call of the C library returned.
    subroutine give(self, code)
        class(outcome), intent(inout) :: self
        integer(c_int), intent(in) :: code
        type(c_ptr) :: message

        if (code == circulant_ok .or. .not. self%good()) return
        self%code = code
        self%is_named = .true.
        message = c_error_message()
        allocate (character(strlen(message)) :: self%sentence)
        call copy(message, self%sentence)
    end subroutine

    ! Texts have their lengths from expressions: those of functions with deferred lengths gfortran keeps in static memory,
    ! where threads would overwrite them.

    !> A code's name, such as "CIRCULANT_ERR_LOST".
    function circulant_error_name(code) result(name)
        integer, intent(in) :: code
        character(strlen(c_error_name(code))) :: name

        call copy(c_error_name(code), name)
    end function

    !> The library's version, such as "0.1.0".
    function circulant_version() result(version)
        character(strlen(c_version())) :: version

        call copy(c_version(), version)
    end function

    subroutine copy(text, letters)
        type(c_ptr), intent(in) :: text
        character(*), intent(out) :: letters
        character(kind=c_char), pointer :: letter(:)
        integer :: i

        call c_f_pointer(text, letter, [len(letters)])
        do i = 1, len(letters)
            letters(i:i) = letter(i)
        end do
    end subroutine

    !> Notes what is wrong with an argument, and its cure.
    pure subroutine complain(self, code, sentence)
        class(outcome), intent(inout) :: self
        integer, intent(in) :: code
        character(*), intent(in) :: sentence

        if (.not. self%good()) return
        self%code = code
        self%sentence = sentence
    end subroutine

    !> Tells the caller of the call that has this name.
    subroutine finish(self, name, stat, errmsg)
        class(outcome), intent(in) :: self
        character(*), intent(in) :: name
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg

        character(:), allocatable :: sentence

        if (present(stat)) stat = self%code
        if (self%good()) return
        sentence = self%sentence
        if (.not. self%is_named) sentence = name//': '//sentence
        if (present(errmsg)) errmsg = sentence
        if (.not. present(stat)) error stop sentence
    end subroutine

    !> There is a communicator.
    pure subroutine within(self, comm)
        class(outcome), intent(inout) :: self
        type(circulant_comm), intent(in) :: comm

        if (comm%is_null()) call self%complain(circulant_err_null, &
            'null where a communicator belongs; give one that a call of this library gave')
    end subroutine

    !> An array has as many elements as belong there.
    pure subroutine has(self, name, elements, wanted)
        class(outcome), intent(inout) :: self
        character(*), intent(in) :: name
        integer(c_size_t), intent(in) :: elements, wanted

        if (elements /= wanted) call self%complain(circulant_err_argument, '`'//name//'` has '//decimal(elements)// &
            ' elements where '//decimal(wanted)//' belong; give an array, or a section, of that size')
    end subroutine

    !> An array has all elements that counts, and places where there are any, speak of.
    pure subroutine reaches(self, name, elements, counts, places)
        class(outcome), intent(inout) :: self
        character(*), intent(in) :: name
        integer(c_size_t), intent(in) :: elements, counts(:), places(:)
        integer(c_size_t) :: i, next

        if (.not. self%good()) return
        next = 0
        do i = 1, size(counts)
            if (size(places) > 0) next = places(i)
            ! Not next + counts(i), which may be more than the kind holds.
            if (counts(i) > 0 .and. (next > elements .or. counts(i) > elements - next)) then
                call self%complain(circulant_err_argument, '`'//name//'` has '//decimal(elements)// &
                    ' elements, and the part of rank '//decimal(i - 1)//' is '//decimal(counts(i))//' from '// &
                    decimal(next)//' on; give a longer array, or other counts')
                return
            end if
            next = next + counts(i)
        end do
    end subroutine

    !> An array's elements are the same number for each rank.
    pure subroutine divides(self, name, elements, ranks)
        class(outcome), intent(inout) :: self
        character(*), intent(in) :: name
        integer(c_size_t), intent(in) :: elements
        integer, intent(in) :: ranks

        if (ranks == 0) return
        if (mod(elements, int(ranks, c_size_t)) /= 0) call self%complain(circulant_err_argument, '`'//name//'` has '// &
            decimal(elements)//' elements for '//decimal(int(ranks, c_size_t))// &
            ' ranks; give as many for each of them')
    end subroutine

    !> An array's size is known, which is not so where a dummy is declared as a(*).
    pure subroutine sized(self, name, elements)
        class(outcome), intent(inout) :: self
        character(*), intent(in) :: name
        integer(c_size_t), intent(in) :: elements

        if (elements < 0) call self%complain(circulant_err_argument, '`'//name// &
            '` is of assumed size, which tells nobody how long it is; give a section with an end, such as a(1:n)')
    end subroutine

    !> An array is in one piece: of any other the compiler would hand on a copy, which is gone when the call has
    !> started.
    pure subroutine whole(self, name, is_whole)
        class(outcome), intent(inout) :: self
        character(*), intent(in) :: name
        logical, intent(in) :: is_whole

        if (.not. is_whole) call self%complain(circulant_err_argument, '`'//name// &
            '` is not contiguous; give a contiguous array, or make the call at once')
    end subroutine

    !> A request is free for a new call.
    pure subroutine unused(self, request)
        class(outcome), intent(inout) :: self
        type(circulant_request), intent(in) :: request

        if (.not. request%is_null()) call self%complain(circulant_err_argument, &
            '`request` is of another call; wait for it, or free it, first')
    end subroutine

    !> An operator can combine elements of a type. The library sees no functions' types, and takes logicals of the default
    !> kind for integers.
    pure subroutine fits(self, op, type)
        class(outcome), intent(inout) :: self
        type(circulant_op), intent(in) :: op
        character(*), intent(in) :: type
        type(circulant_op), parameter :: on_numbers(*) = [circulant_sum, circulant_product, circulant_min, circulant_max, &
            circulant_bit_and, circulant_bit_or, circulant_bit_xor, circulant_min_place, circulant_max_place]

        if (op%made_for /= '' .and. op%made_for /= type) call self%complain(circulant_err_type, &
            'an operator of circulant_op_create_'//trim(op%made_for)//' where elements are '//type// &
            '; give one of circulant_op_create_'//type)
        if (index(type, 'logical') == 1 .and. any(op%handle == on_numbers%handle)) call self%complain(circulant_err_type, &
            'an operator that does not fit logicals; give circulant_logical_and, _or or _xor')
    end subroutine

    ! Not one for class(*): gfortran (12) finds other numbers than those of a component of an array, such as parts%length.

    !> Takes numbers of the caller's, none of them negative; of none given there are none.
    pure subroutine take_int32(self, name, given, taken, ranks)
        class(outcome), intent(inout) :: self
        character(*), intent(in) :: name
        integer(int32), intent(in), optional :: given(:)
        integer(c_size_t), allocatable, intent(out) :: taken(:)
        integer, intent(in) :: ranks

        if (present(given)) then
            call self%take_int64(name, int(given, int64), taken, ranks)
        else
            allocate (taken(0))
        end if
    end subroutine

    !> The same, of the larger kind.
    pure subroutine take_int64(self, name, given, taken, ranks)
        class(outcome), intent(inout) :: self
        character(*), intent(in) :: name
        integer(int64), intent(in), optional :: given(:)
        integer(c_size_t), allocatable, intent(out) :: taken(:)
        integer, intent(in) :: ranks

        allocate (taken(0))
        if (.not. present(given)) return
        taken = given
        if (any(taken < 0)) call self%complain(circulant_err_argument, '`'//name// &
            '` has a negative number; give numbers of elements')
        if (size(taken) /= ranks) call self%complain(circulant_err_argument, '`'//name//'` has '// &
            decimal(size(taken, kind=c_size_t))//' entries where '//decimal(int(ranks, c_size_t))// &
            ' belong; give one for each')
    end subroutine

    pure function decimal(number) result(text)
        integer(c_size_t), intent(in) :: number
        character(digits_of(number)) :: text

        write (text, '(i0)') number
    end function

    pure integer function digits_of(number)
        integer(c_size_t), intent(in) :: number
        character(20) :: padded

        write (padded, '(i0)') number
        digits_of = len_trim(padded)
    end function
end module circulant_outcome
