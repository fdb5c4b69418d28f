"""The program that makes the attempts, inside."""

from __future__ import annotations

from typing import Final

# Makes each attempt in a process of its own. One that comes to its end has succeeded; an error of the kernel
# means that it was stopped. Arguments: programs by name, what there is to reach, and numbers of system calls.
FRAME: Final = """\
import ctypes, errno, json, os, signal, socket, stat, struct, subprocess, sys, textwrap, time
libc = ctypes.CDLL(None, use_errno=True)
attempts, scene, NR = map(json.loads, sys.argv[1:])
def call(number, *arguments):
    ctypes.set_errno(0)
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in (number, *arguments)]
    value = libc.syscall(*words)
    return "ok" if value >= 0 else errno.errorcode[ctypes.get_errno()]
def check(value):
    if value < 0:
        raise OSError(ctypes.get_errno(), "refused")
def need(condition):
    if not condition:
        raise OSError(0, "nothing there")
def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
def others():
    return [pid for pid in pids() if pid not in (os.getpid(), os.getppid())]
def ours():
    # Processes of the harness: their parent is outside.
    found = [pid for pid in others() if pid != 1 and b"\\nPPid:\\t0\\n" in read(f"/proc/{pid}/status")]
    assert found, "expected at least the one that started us"
    return found
def read(path):
    with open(path, "rb", buffering=0) as stream:
        return stream.read(100_000)
def write(path, data):
    with open(path, "wb", buffering=0) as stream:
        stream.write(data)
def any_of(*attempts):
    errors = []
    for attempt in attempts:
        try:
            return attempt()
        except OSError as error:
            errors.append(error)
    raise errors[-1]
def make(code):
    names = dict(globals())
    body = textwrap.dedent(code.strip("\\n")) + "\\nreturn locals().get('result')"
    exec("def attempt():\\n" + textwrap.indent(body, "    "), names)
    try:
        result = names["attempt"]()
    except OSError as error:
        return ["stopped", errno.errorcode.get(error.errno, str(error))]
    except BaseException as error:
        return ["broken", repr(error)]
    return ["stopped", result] if result in errno.errorcode.values() else ["escaped", "it succeeded"]
for name, code in attempts.items():
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        os.dup2(writer, 3000)
        os.close(writer)
        signal.alarm(100)
        outcome = make(code)
        os.write(3000, json.dumps(outcome).encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 4096)
    os.close(reader)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # Killed by a filter, it never got to say anything.
    ended = ["stopped", "SIGSYS"] if status == -signal.SIGSYS else ["broken", f"it ended with {status}"]
    outcome = json.loads(said) if said else ended
    print(json.dumps([name, *outcome]), flush=True)
"""
