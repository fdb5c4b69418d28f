// PID 1 of a sandbox on aarch64 (see src/repotrial/isolation/_launch_server/_idle.py, which holds its bytes).
        .text
        mov     x8, 167                         // prctl(PR_SET_DUMPABLE, 0)
        mov     x0, 4
        mov     x1, 0
        svc     0
        sub     sp, sp, 64                      // the structure, on the stack: SIG_IGN, SA_NOCLDWAIT
        mov     x9, 1
        mov     x10, 2
        stp     x9, x10, [sp]
        stp     xzr, xzr, [sp, 16]
        mov     x8, 134                         // rt_sigaction(SIGCHLD, …, NULL, 8)
        mov     x0, 17
        mov     x1, sp
        mov     x2, 0
        mov     x3, 8
        svc     0
        mov     x8, 64                          // write(1, "\1", 1)
        mov     x0, 1
        mov     x1, sp
        mov     x2, 1
        svc     0
        mov     x8, 436                         // close_range(1, ~0U, 0)
        mov     x0, 1
        mov     w1, -1
        mov     x2, 0
        svc     0
again:  mov     x8, 63                          // read(0, …, 1), again after EINTR
        mov     x0, 0
        mov     x1, sp
        mov     x2, 1
        svc     0
        cmn     w0, 4
        b.eq    again
        mov     x8, 94                          // exit_group(0)
        mov     x0, 0
        svc     0
