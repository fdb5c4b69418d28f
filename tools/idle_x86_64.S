// PID 1 of a sandbox on x86-64 (see src/repotrial/isolation/_launch_server/_idle.py, which holds its bytes).
        .intel_syntax noprefix
        .text
        mov     eax, 157                        // prctl(PR_SET_DUMPABLE, 0)
        mov     edi, 4
        xor     esi, esi
        syscall
        sub     rsp, 64                         // the structure, on the stack: SIG_IGN, SA_NOCLDWAIT
        mov     qword ptr [rsp], 1
        mov     qword ptr [rsp + 8], 2
        mov     qword ptr [rsp + 16], 0
        mov     qword ptr [rsp + 24], 0
        mov     eax, 13                         // rt_sigaction(SIGCHLD, …, NULL, 8)
        mov     edi, 17
        mov     rsi, rsp
        xor     edx, edx
        mov     r10d, 8
        syscall
        mov     eax, 1                          // write(1, "\1", 1)
        mov     edi, 1
        mov     rsi, rsp
        mov     edx, 1
        syscall
        mov     eax, 436                        // close_range(1, ~0U, 0)
        mov     edi, 1
        mov     esi, 0xffffffff
        xor     edx, edx
        syscall
again:  xor     eax, eax                        // read(0, …, 1), again after EINTR
        xor     edi, edi
        mov     rsi, rsp
        mov     edx, 1
        syscall
        cmp     eax, -4
        je      again
        mov     eax, 231                        // exit_group(0)
        xor     edi, edi
        syscall
