"""Attempts to get power that was given up: privileges, devices, descriptors, bounds. Programs by name."""

from __future__ import annotations

from typing import Final

BOUNDS: Final = {
    "make-a-user-namespace": "check(libc.unshare(0x10000000))",
    "raise-a-hard-limit": """
    import resource
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    check(libc.setrlimit(resource.RLIMIT_NPROC, struct.pack("=QQ", hard, hard + 1)))""",
    "raise-the-priority": "os.nice(-5)",
    "spare-oneself-when-memory-runs-out": "write('/proc/self/oom_score_adj', b'-1000')",
    "kill-everything-outside": "os.kill(-os.getpid() - 100_000, 9)",
}

PRIVILEGES: Final = {
    "make-a-block-device": "os.mknod('/tmp/b', stat.S_IFBLK | 0o600, os.makedev(254, 0))",
    "make-a-character-device": "os.mknod('/workspace/m', stat.S_IFCHR | 0o600, os.makedev(1, 1))",
    "read-a-disk": """
    names = ("vda", "sda", "nvme0n1", "mem")
    any_of(*(lambda name=name: open(f"/dev/{name}", "rb") for name in names))""",
    "become-root": "os.setuid(0)",
    "become-somebody-else": "os.setresuid(2000, 2000, 2000)",
    "run-a-setuid-program": """
    done = subprocess.run(["su", "-c", "id -u"], input=b"", capture_output=True)
    need(done.returncode == 0)""",
    "gain-by-a-setuid-bit-of-our-own": """
    import shutil
    shutil.copy("/usr/bin/id", "/workspace/id")
    os.chmod("/workspace/id", 0o6755)
    need(subprocess.run(["/workspace/id", "-u"], capture_output=True).stdout.strip() == b"0")""",
    "have-a-capability": """
    lines = open("/proc/self/status").read().splitlines()
    need(any(int(line.split()[1], 16) for line in lines if line.startswith("Cap")))""",
    "gain-privileges-by-execution": "need('NoNewPrivs:\\t1' not in open('/proc/self/status').read())",
    "write-a-control-group": """
    any_of(*(lambda d=d: open(f"/sys/fs/cgroup/{d}cgroup.procs", "w") for d in ("", "memory/", "pids/")))""",
    "see-hardware": "need(os.listdir('/sys'))",
    "read-the-kernel-log": """
    any_of(lambda: open("/dev/kmsg"), lambda: check(libc.klogctl(3, b"x" * 100, 100)))""",
    "set-the-clock": "time.clock_settime(time.CLOCK_REALTIME, time.time())",
    "set-the-host-name": "socket.sethostname(socket.gethostname())",
    "find-a-terminal": "open('/dev/tty')",
    "type-into-a-terminal": """
    import fcntl
    master, slave = os.openpty()
    fcntl.ioctl(slave, 0x5412, b"x")""",
    "truncate-the-record-of-the-output": "os.ftruncate(1, 0)",
    "reopen-the-output-as-a-file": "need(not stat.S_ISFIFO(os.stat('/proc/self/fd/1').st_mode))",
    "seek-in-the-output": "os.lseek(1, 0, 0)",
    "use-an-inherited-descriptor": """
    found = []
    for number in range(3, 3000):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(number)
    need(found)""",
    "read-the-standard-input": "need(os.read(0, 1))",
    "reach-a-directory-through-the-standard-input": "need(os.readlink('/proc/self/fd/0') != '/dev/null')",
}

WORKSPACE: Final = {
    "follow-a-link-out-of-the-workspace": """
    os.symlink(scene["file"], "/workspace/link")
    open("/workspace/link")""",
    "link-a-file-from-outside": "os.link('/usr/bin/env', '/workspace/env')",
    "leave-a-file-of-root": """
    open("/workspace/mine", "w").close()
    os.chown("/workspace/mine", 0, 0)""",
}
