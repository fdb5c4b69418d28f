"""Attempts to reach what is not inside: files, processes and services of the host. Programs by name."""

from __future__ import annotations

from typing import Final

FILES: Final = {
    "write-etc-passwd": "open('/etc/passwd', 'a')",
    "move-a-file-into-etc": "open('/tmp/p', 'w').close(); os.rename('/tmp/p', '/etc/planted')",
    "create-in-usr-bin": "open('/usr/bin/planted', 'w')",
    "create-in-etc": "open('/etc/planted', 'w')",
    "create-in-the-root": "open('/planted', 'w')",
    "create-in-dev": "open('/dev/planted', 'w')",
    "change-a-mode-in-usr": "os.chmod('/usr/bin/env', 0o755)",
    "read-a-file-of-the-host": "open(scene['file'])",
    "list-the-homes": "any_of(lambda: os.listdir('/root'), lambda: os.listdir('/home'))",
    "read-the-shadow-file": "open('/etc/shadow')",
    "see-accounts-of-the-host": "need(b'daemon' in read('/etc/passwd'))",
    "climb-out-of-the-root": "open('../' * 30 + scene['file'][1:])",
}

NETWORK: Final = {
    "reach-a-service-on-the-host's-loopback": (
        "socket.create_connection(('127.0.0.1', int(scene['port'])), 3)"
    ),
    "reach-a-service-of-another-sandbox": (
        "socket.create_connection(('127.0.0.1', int(scene['neighbor_port'])), 3)"
    ),
    "reach-the-host's-loopback-over-version-6": ("socket.create_connection(('::1', int(scene['port'])), 3)"),
    "send-a-datagram-to-the-host's-loopback": """
    channel = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    channel.connect(("127.0.0.1", int(scene["datagram_port"])))
    channel.send(b"x")
    channel.settimeout(1)
    channel.recv(1)""",
    "resolve-a-name": "socket.getaddrinfo('repotrial.invalid', 80)",
    "have-an-interface-besides-loopback": "need([name for _, name in socket.if_nameindex() if name != 'lo'])",
    "reach-an-abstract-socket-of-the-host": """
    channel = socket.socket(socket.AF_UNIX)
    channel.connect("\\0" + scene["abstract"])""",
    "reach-a-socket-file-of-the-host": """
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(scene["socket"])""",
    "reach-well-known-sockets": """
    channel = socket.socket(socket.AF_UNIX)
    paths = ["/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock"]
    paths.append("/run/dbus/system_bus_socket")
    any_of(*(lambda path=path: channel.connect(path) for path in paths))""",
    "route-elsewhere": """
    channel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    message = struct.pack("=IHHII", 28, 16, 5, 1, 0) + struct.pack("=BxHiII", 0, 0, 1, 0, 1)
    channel.send(message)
    answer = channel.recv(4096)
    check(-1 if struct.unpack_from("=i", answer, 16)[0] else 0)""",
}

PROC: Final = {
    "read-environment-of-pid-1": "read('/proc/1/environ')",
    "read-command-line-of-pid-1": "need(scene['sources'].encode() in read('/proc/1/cmdline'))",
    "read-root-of-pid-1": "open('/proc/1/root' + scene['file'])",
    "read-cwd-of-pid-1": "os.listdir('/proc/1/cwd')",
    "read-memory-of-pid-1": "open('/proc/1/mem', 'rb')",
    "list-descriptors-of-pid-1": "os.listdir('/proc/1/fd')",
    "find-the-secret-in-any-environment": """
    for pid in pids():
        try:
            found = read(f"/proc/{pid}/environ")
        except OSError:
            continue
        if scene["secret"].encode() in found:
            return
    need(False)""",
    "find-paths-of-the-host-in-any-command-line": """
    words = [scene["sources"].encode(), b"site-packages", scene["process"].encode()]
    need(any(word in read(f"/proc/{pid}/cmdline") for pid in others() for word in words))""",
    "find-paths-of-the-host-in-any-memory-map": """
    for pid in others():
        try:
            maps = read(f"/proc/{pid}/maps")
        except OSError:
            continue
        if scene["sources"].encode() in maps or b"libpython" in maps:
            return
    need(False)""",
    "open-memory-of-our-processes": """
    any_of(*(lambda pid=pid: open(f"/proc/{pid}/mem", "r+b") for pid in ours()))""",
    "open-descriptors-of-our-processes": """
    any_of(*(lambda pid=pid: os.listdir(f"/proc/{pid}/fd") for pid in ours()))""",
    "press-the-magic-key": "write('/proc/sysrq-trigger', b'h')",
    "write-a-kernel-setting": "open('/proc/sys/kernel/core_pattern', 'w')",
    "change-the-host-name-through-proc": "write('/proc/sys/kernel/hostname', socket.gethostname().encode())",
    "read-kernel-memory": "any_of(lambda: open('/proc/kcore', 'rb'), lambda: open('/proc/kmsg', 'rb'))",
}

PROCESSES: Final = {
    "see-processes-of-the-host": """
    need(any(scene["process"].encode() in read(f"/proc/{pid}/cmdline") for pid in others()))""",
    "see-many-processes": "need(len(pids()) > 6)",
}
