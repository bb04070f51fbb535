!> Worlds and communicators: made, divided, given up.
module circulant_communicators
    use, intrinsic :: iso_c_binding
    use circulant_handles
    use circulant_outcome
    implicit none
    private
    public :: circulant_init, circulant_finalize, circulant_id, circulant_id_create, circulant_allgather_function
    public :: circulant_comm_split, circulant_comm_duplicate, circulant_comm_free
    public :: circulant_comm_node, circulant_comm_nodes, circulant_comm_transport, circulant_comm_boot
    public :: circulant_comm_set_algorithm

    !> What one process makes, and all others are given, so that they find each other.
    type, bind(c) :: circulant_id
        !> To be sent as they are.
        integer(c_int8_t) :: bytes(circulant_id_bytes)
    end type

    abstract interface
        !> An allgather of the program's own, as circulant.h says: every rank's `bytes` bytes at `own` go to everybody's
        !> `all`. 0, or another number for an error.
        function circulant_allgather_function(own, all, bytes, context) bind(c) result(code)
            import
            type(c_ptr), value :: own, all
            integer(c_size_t), value :: bytes
            type(c_ptr), value :: context
            integer(c_int) :: code
        end function
    end interface

    abstract interface
        function text_of(comm, text, bytes) bind(c) result(code)
            import
            integer(c_intptr_t), value :: comm
            character(kind=c_char), intent(inout) :: text(*)
            integer(c_size_t), value :: bytes
            integer(c_int) :: code
        end function
    end interface
    procedure(text_of), bind(c, name='circulant_comm_transport') :: c_comm_transport
    procedure(text_of), bind(c, name='circulant_comm_boot') :: c_comm_boot

    !> Makes this process a rank of a job, and gives the communicator of all ranks. Collective.
    interface circulant_init
        module procedure init, init_id, init_allgather
    end interface

    interface
        function c_init(major, minor, world) bind(c, name='circulant_init_version') result(code)
            import
            integer(c_int), value :: major, minor
            integer(c_intptr_t), intent(inout) :: world
            integer(c_int) :: code
        end function

        function c_init_id(major, minor, rank, size, id, world) bind(c, name='circulant_init_id_version') result(code)
            import
            integer(c_int), value :: major, minor, rank, size
            type(circulant_id), intent(in) :: id
            integer(c_intptr_t), intent(inout) :: world
            integer(c_int) :: code
        end function

        function c_init_allgather(major, minor, rank, size, allgather, context, world) &
            bind(c, name='circulant_init_allgather_version') result(code)
            import
            integer(c_int), value :: major, minor, rank, size
            type(c_funptr), value :: allgather
            type(c_ptr), value :: context
            integer(c_intptr_t), intent(inout) :: world
            integer(c_int) :: code
        end function

        function c_id_create(id) bind(c, name='circulant_id_create') result(code)
            import
            type(circulant_id), intent(out) :: id
            integer(c_int) :: code
        end function

        function c_finalize(world) bind(c, name='circulant_finalize') result(code)
            import
            integer(c_intptr_t), intent(inout) :: world
            integer(c_int) :: code
        end function

        function c_comm_rank(comm, rank) bind(c, name='circulant_comm_rank') result(code)
            import
            integer(c_intptr_t), value :: comm
            integer(c_int), intent(inout) :: rank
            integer(c_int) :: code
        end function

        function c_comm_size(comm, size) bind(c, name='circulant_comm_size') result(code)
            import
            integer(c_intptr_t), value :: comm
            integer(c_int), intent(inout) :: size
            integer(c_int) :: code
        end function

        function c_comm_split(comm, colour, key, new_comm) bind(c, name='circulant_comm_split') result(code)
            import
            integer(c_intptr_t), value :: comm
            integer(c_int), value :: colour, key
            integer(c_intptr_t), intent(inout) :: new_comm
            integer(c_int) :: code
        end function

        function c_comm_duplicate(comm, new_comm) bind(c, name='circulant_comm_duplicate') result(code)
            import
            integer(c_intptr_t), value :: comm
            integer(c_intptr_t), intent(inout) :: new_comm
            integer(c_int) :: code
        end function

        function c_comm_free(comm) bind(c, name='circulant_comm_free') result(code)
            import
            integer(c_intptr_t), intent(inout) :: comm
            integer(c_int) :: code
        end function

        function c_comm_nodes(comm, nodes) bind(c, name='circulant_comm_nodes') result(code)
            import
            integer(c_intptr_t), value :: comm
            integer(c_int), intent(inout) :: nodes
            integer(c_int) :: code
        end function

        function c_comm_node(comm, rank, node) bind(c, name='circulant_comm_node') result(code)
            import
            integer(c_intptr_t), value :: comm
            integer(c_int), value :: rank
            integer(c_int), intent(inout) :: node
            integer(c_int) :: code
        end function

        function c_comm_set_algorithm(comm, collective, algorithm, blocks) &
            bind(c, name='circulant_comm_set_algorithm') result(code)
            import
            integer(c_intptr_t), value :: comm
            integer(c_int), value :: collective
            character(kind=c_char), intent(in), optional :: algorithm(*)
            integer(c_int), value :: blocks
            integer(c_int) :: code
        end function
    end interface

contains

    !> Of the job that it was started in, by whatever launcher, or by the MPI that is in the process; alone without one.
    subroutine init(world, stat, errmsg)
        type(circulant_comm), intent(out) :: world
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_intptr_t) :: handle
        integer(c_int) :: code

        code = c_init(circulant_version_major, circulant_version_minor, handle)
        call arrive('circulant_init', code, handle, world, stat, errmsg)
    end subroutine

    !> Of the processes that have this id, each with a rank of its own. No variable of a launcher is read.
    subroutine init_id(world, rank, size, id, stat, errmsg)
        type(circulant_comm), intent(out) :: world
        integer, intent(in) :: rank, size
        type(circulant_id), intent(in) :: id
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_intptr_t) :: handle
        integer(c_int) :: code

        code = c_init_id(circulant_version_major, circulant_version_minor, rank, size, id, handle)
        call arrive('circulant_init', code, handle, world, stat, errmsg)
    end subroutine

    !> Of those that an allgather of the program's own is among; `context` is handed to it. No variable of a launcher is
    !> read.
    subroutine init_allgather(world, rank, size, allgather, context, stat, errmsg)
        type(circulant_comm), intent(out) :: world
        integer, intent(in) :: rank, size
        procedure(circulant_allgather_function) :: allgather
        type(c_ptr), intent(in), optional :: context
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_intptr_t) :: handle
        integer(c_int) :: code
        type(c_ptr) :: handed

        handed = c_null_ptr
        if (present(context)) handed = context
        code = c_init_allgather(circulant_version_major, circulant_version_minor, rank, size, &
            c_funloc(allgather), handed, handle)
        call arrive('circulant_init', code, handle, world, stat, errmsg)
    end subroutine

    !> Makes an id, on one process, which is to live until all ranks have joined; the program carries it to the others.
    !> It is used once.
    subroutine circulant_id_create(id, stat, errmsg)
        type(circulant_id), intent(out) :: id
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(outcome) :: result

        call result%give(c_id_create(id))
        call result%finish('circulant_id_create', stat, errmsg)
    end subroutine

    !> Gives up a world with all communicators, windows and requests that came of it. Waits for the requests, and until
    !> all ranks have called it; a process that ends without it is lost to the others. Collective.
    subroutine circulant_finalize(world, stat, errmsg)
        type(circulant_comm), intent(inout) :: world
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(outcome) :: result

        call result%give(c_finalize(world%handle))
        if (world%is_null()) world = circulant_comm()
        call result%finish('circulant_finalize', stat, errmsg)
    end subroutine

    !> Divides a communicator: ranks of one colour (0 or more) make a new one, in the order of their keys, and of their
    !> ranks where keys are equal, or not given. A rank with circulant_no_colour gets null. Collective.
    subroutine circulant_comm_split(comm, colour, new_comm, key, stat, errmsg)
        type(circulant_comm), intent(in) :: comm
        integer, intent(in) :: colour
        type(circulant_comm), intent(out) :: new_comm
        integer, intent(in), optional :: key
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_intptr_t) :: handle
        integer(c_int) :: code
        integer(c_int) :: own_key

        own_key = 0
        if (present(key)) own_key = key
        code = c_comm_split(comm%handle, colour, own_key, handle)
        call arrive('circulant_comm_split', code, handle, new_comm, stat, errmsg)
    end subroutine

    !> The same ranks once more: calls on one do not mix with calls on the other. Collective.
    subroutine circulant_comm_duplicate(comm, new_comm, stat, errmsg)
        type(circulant_comm), intent(in) :: comm
        type(circulant_comm), intent(out) :: new_comm
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_intptr_t) :: handle
        integer(c_int) :: code

        code = c_comm_duplicate(comm%handle, handle)
        call arrive('circulant_comm_duplicate', code, handle, new_comm, stat, errmsg)
    end subroutine

    !> How each way to a communicator ends: there is one, or null for a rank without a colour, or an error.
    subroutine arrive(name, code, handle, comm, stat, errmsg)
        character(*), intent(in) :: name
        integer(c_int), intent(in) :: code
        integer(c_intptr_t), intent(in) :: handle
        type(circulant_comm), intent(out) :: comm
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(outcome) :: result

        call result%give(code)
        if (result%good()) call take_place(result, handle, comm)
        call result%finish(name, stat, errmsg)
    end subroutine

    subroutine take_place(result, handle, comm)
        type(outcome), intent(inout) :: result
        integer(c_intptr_t), intent(in) :: handle
        type(circulant_comm), intent(inout) :: comm
        integer(c_int) :: rank, size

        if (handle == 0) return
        call result%give(c_comm_rank(handle, rank))
        call result%give(c_comm_size(handle, size))
        if (result%good()) comm = circulant_comm(handle, rank, size)
    end subroutine

    !> Gives a communicator up, once all its ranks do. Requests that were started on it go on. Collective.
    subroutine circulant_comm_free(comm, stat, errmsg)
        type(circulant_comm), intent(inout) :: comm
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(outcome) :: result

        call result%give(c_comm_free(comm%handle))
        if (comm%is_null()) comm = circulant_comm()
        call result%finish('circulant_comm_free', stat, errmsg)
    end subroutine

    !> How many nodes a communicator's ranks are on.
    subroutine circulant_comm_nodes(comm, nodes, stat, errmsg)
        type(circulant_comm), intent(in) :: comm
        integer, intent(out) :: nodes
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(outcome) :: result

        nodes = 0
        call result%give(c_comm_nodes(comm%handle, nodes))
        call result%finish('circulant_comm_nodes', stat, errmsg)
    end subroutine

    !> Which node a rank is on, from 0 on. With it as a colour, circulant_comm_split gives each node a communicator.
    subroutine circulant_comm_node(comm, rank, node, stat, errmsg)
        type(circulant_comm), intent(in) :: comm
        integer, intent(in) :: rank
        integer, intent(out) :: node
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(outcome) :: result

        node = -1
        call result%give(c_comm_node(comm%handle, rank, node))
        call result%finish('circulant_comm_node', stat, errmsg)
    end subroutine

    !> What carries puts, such as "shm (writev)"; cut where `text` is shorter.
    subroutine circulant_comm_transport(comm, text, stat, errmsg)
        type(circulant_comm), intent(in) :: comm
        character(*), intent(out) :: text
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg

        call tell('circulant_comm_transport', c_comm_transport, comm, text, stat, errmsg)
    end subroutine

    !> How the ranks found each other, such as "PMI-1 (PMI_FD=7)"; cut where `text` is shorter.
    subroutine circulant_comm_boot(comm, text, stat, errmsg)
        type(circulant_comm), intent(in) :: comm
        character(*), intent(out) :: text
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg

        call tell('circulant_comm_boot', c_comm_boot, comm, text, stat, errmsg)
    end subroutine

    subroutine tell(name, function, comm, text, stat, errmsg)
        character(*), intent(in) :: name
        procedure(text_of) :: function
        type(circulant_comm), intent(in) :: comm
        character(*), intent(out) :: text
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        character(kind=c_char) :: letters(len(text) + 1)
        integer :: i
        type(outcome) :: result

        letters = c_null_char
        call result%give(function(comm%handle, letters, size(letters, kind=c_size_t)))
        text = ''
        do i = 1, len(text)
            if (letters(i) == c_null_char) exit
            text(i:i) = letters(i)
        end do
        call result%finish(name, stat, errmsg)
    end subroutine

    !> Names the algorithm of a collective's calls on a communicator, and the number of blocks. `collective` is
    !> circulant_call_allreduce or its like; `algorithm` one of `circulant plan --list`. What is not given is the
    !> library's choice. Local, but all ranks must say the same.
    subroutine circulant_comm_set_algorithm(comm, collective, algorithm, blocks, stat, errmsg)
        type(circulant_comm), intent(in) :: comm
        integer, intent(in) :: collective
        character(*), intent(in), optional :: algorithm
        integer, intent(in), optional :: blocks
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer :: number
        type(outcome) :: result

        number = 0
        if (present(blocks)) number = blocks
        if (present(algorithm)) then
            call result%give(c_comm_set_algorithm(comm%handle, collective, trim(algorithm)//c_null_char, number))
        else
            call result%give(c_comm_set_algorithm(comm%handle, collective, blocks=number))
        end if
        call result%finish('circulant_comm_set_algorithm', stat, errmsg)
    end subroutine
end module circulant_communicators
