"""Environments of contracts, made ready for real and looked at from inside."""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial._core.digest import digest_bytes
from repotrial._core.errors import MachineError
from repotrial._core.words import Level
from repotrial.contract import load_contract
from repotrial.environment import (
    HostExecution,
    InstallationSettings,
    SandboxRequest,
    open_installation,
    telling,
)
from repotrial.isolation import Bind, CommandSpec
from repotrial.syscalls import EndRecord, StartRecord, SyscallRecord
from repotrial.trace import Exited, HostEnvironment, ImageEnvironment
from repotrial.workspace import CopyWorkspace, OverlayWorkspace
from support.errors import raises_code
from support.images import ImageBuilder, file
from support.installations import open_trial, shell
from support.packages import build_node_package, serve

SERVER = """\
import os, signal, socket, sys, time
signal.signal(signal.SIGTERM, lambda *_: (open("/run/repotrial/farewell", "w").close(), sys.exit(0)))
print("starting", flush=True)
time.sleep(0.2)
listener = socket.create_server(("127.0.0.1", 8123))
while True:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(os.environ.get("GREETING", "none").encode())
"""

SERVICE = """\
[[environment.services]]
id = "greeter"
run = "exec /usr/bin/python3 /opt/trial/server.py"
variables = { GREETING = "good day" }
readiness = { kind = "port", port = 8123, interval_ms = 20, timeout_seconds = 60 }
stop_seconds = 60
[[environment.files]]
source = "server.py"
target = "/opt/trial/server.py"
"""


def _list_members(*programs: str) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """Programs of the host with the libraries that they need, at their own paths."""
    found = set(programs)
    for program in programs:
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        found |= set(re.findall(r"(/\S+) \(0x", listed))
    yield from (file(path.lstrip("/"), Path(path).read_bytes(), mode=0o755) for path in sorted(found))


GREET = "exec 3<>/dev/tcp/127.0.0.1/8123; cat <&3"


def test_setup_runs_once_and_what_it_made_is_there_in_every_phase() -> None:
    setup = """
[[setup]]
id = "first"
run = 'bash "$REPOTRIAL_SETUP/make.sh"; echo kept > /opt/kept/file; ! touch "$REPOTRIAL_SETUP/made"'
scripts = ["setup/make.sh"]
outputs = ["build", "/opt/kept"]
variables = { WORD = "made" }
[[setup]]
cwd = "build"
run = 'echo "${WORD-none} $PWD" > second'
"""
    files = {"setup/make.sh": 'mkdir build\necho "$WORD" > build/first\n'}
    with open_trial(setup=setup, files=files) as trial:
        keys, kept = set(), set()
        for _ in range(2):
            with trial.open() as installation:
                look = "cat build/first build/second /opt/kept/file; touch /opt/kept/x; ls -A /opt/repotrial"
                results = [shell(installation, look, phase=phase) for phase in ("act", "accept")]
                keys.add(installation.base.label.key)
                kept.add(installation.base.outputs_digest)
            assert {result.stdout.prefix for result in results} == {b"made\nnone /workspace/build\nkept\n"}
            assert all(b"Read-only file system" in result.stderr.prefix for result in results)
        assert len(keys) == len([*trial.cache.glob("bases/entries/*")]) == 1
        trial.write(
            setup=setup.replace("echo kept", "echo else"),
            files={"setup/make.sh": "mkdir build; echo other > build/first\n"},
        )
        with trial.open() as installation:
            assert installation.base.label.key not in keys
            assert None not in {*kept, installation.base.outputs_digest}
            assert len({*kept, installation.base.outputs_digest}) == 2
            assert shell(installation, "cat build/first").stdout.prefix == b"other\n"
        assert trial.list_leftovers() == []


def test_what_setup_leaves_in_the_tree_is_no_change_of_the_agents() -> None:
    setup = "[[setup]]\nrun = 'mkdir build; echo 1 > build/a; echo x >> readme'\n"
    with (
        open_trial(setup=setup) as trial,
        trial.open() as installation,
        installation.open_workspace() as workspace,
    ):
        with installation.open_sandbox(workspace, SandboxRequest(phase="act")) as sandbox:
            sandbox.run(CommandSpec(argv=("touch", "mine")))
        assert [*workspace.iter_changes()] == [b"mine"]


@pytest.mark.parametrize(
    ("step", "error", "words"),
    [
        (
            "run = 'echo told; echo why >&2; exit 7'",
            "setup-failed",
            ["exit code 7", "told", "why", "step 1"],
        ),
        ("id = 'slow'\nrun = 'sleep 600'\ntimeout_seconds = 1", "setup-failed", ["slow", "within 1 s"]),
        ("run = 'true'\noutputs = ['build']", "setup-output-missing", ["build"]),
        ("run = 'false | true'", "setup-failed", ["exit code 1"]),
        (
            "run = 'true'\nnetwork = { kind = 'allow-list', hosts = ['packages.example.org'] }",
            "setup-network",
            ["step 1", "network", "found none"],
        ),
    ],
)
def test_a_step_that_fails_is_named_with_what_it_said(step: str, error: str, words: list[str]) -> None:
    with open_trial(setup=f"[[setup]]\n{step}\n") as trial:
        with raises_code(error) as raised:
            trial.open()
        assert all(word in str(raised.value) for word in words), raised.value
        assert trial.list_leftovers() == []
        assert [*trial.cache.glob("bases/entries/*")] == []


def test_variables_are_the_contracts_and_nothing_of_the_operators() -> None:
    environment = """
variables = { WORD = "declared", TZ = "Europe/Berlin" }
absent = ["CI", "PYTHONHASHSEED"]
"""
    with open_trial(environment) as trial:
        with trial.open(variables={"CI": "1", "OPERATOR": "secret"}) as installation:
            result = shell(installation, "env | sort")
            with (
                installation.open_workspace() as workspace,
                installation.open_sandbox(
                    workspace, SandboxRequest(phase="act", variables={"CI": "1"})
                ) as sandbox,
            ):
                assert b"CI=" not in sandbox.run(CommandSpec(argv=("env",))).stdout.prefix
        found = dict(line.split("=", 1) for line in result.stdout.prefix.decode().splitlines())
        assert found.keys() - {"PWD", "SHLVL", "_"} == {"HOME", "LANG", "PATH", "TZ", "WORD"}
        assert (found["LANG"], found["TZ"], found["WORD"]) == ("C.UTF-8", "Europe/Berlin", "declared")


def test_a_secret_is_seen_only_in_its_phases_and_a_missing_one_is_named() -> None:
    environment = """
[[environment.secrets]]
name = "SIGNING_KEY"
reason = "signs links"
[[environment.secrets]]
name = "OPTIONAL"
reason = "for nothing"
is_required = false
"""
    with open_trial(environment) as trial:
        with raises_code("secret-missing", match="SIGNING_KEY") as raised:
            trial.open()
        assert "OPTIONAL" not in str(raised.value)
        secret = "s3cr3t-of-the-operator"
        with trial.open(secrets={"SIGNING_KEY": secret, "UNDECLARED": "u"}) as installation:
            assert secret.encode() in shell(installation, "env", phase="accept").stdout.prefix
            assert b"UNDECLARED" not in shell(installation, "env", phase="accept").stdout.prefix
            hunt = "cat /proc/*/environ; env; grep -rs s3cr3t /tmp /run /opt /workspace /etc /var"
            assert b"s3cr3t" not in shell(installation, hunt).stdout.prefix


def test_files_and_artifacts_appear_read_only_where_they_are_declared() -> None:
    with io.BytesIO() as buffer, tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("top/tool.sh")
        info.mode, content = 0o755, b"#!/bin/sh\necho tool\n"
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
        archive.close()
        packed = buffer.getvalue()
    environment = f"""
[[environment.files]]
source = "conf/app.toml"
target = "/etc/app/app.toml"
[[environment.files]]
source = "conf/run.sh"
target = "/workspace/run.sh"
is_executable = true
[[environment.artifacts]]
id = "tools"
source = "tools.tar.gz"
digest = "{digest_bytes(packed)}"
target = "/opt/tools"
unpack = "tar"
strip_components = 1
[[environment.artifacts]]
id = "data"
source = "tools.tar.gz"
digest = "{digest_bytes(packed)}"
target = "/opt/data/raw"
"""
    files: dict[str, str | bytes] = {
        "conf/app.toml": "x = 1\n",
        "conf/run.sh": "#!/bin/sh\necho ran\n",
        "tools.tar.gz": packed,
    }
    with open_trial(environment, files=files) as trial:
        (trial.directory / "conf" / "app.toml").chmod(0o600)
        with trial.open() as installation:
            result = shell(
                installation,
                "cat /etc/app/app.toml; ./run.sh; /opt/tools/tool.sh; sha256sum < /opt/data/raw | cut -c1-64;"
                "for path in /etc/app/app.toml run.sh /opt/tools/tool.sh; do echo >> $path; done",
            )
        told = digest_bytes(packed).removeprefix("sha256:")
        assert result.stdout.prefix.decode().split("\n")[:-1] == ["x = 1", "ran", "tool", told]
        assert result.stderr.prefix.count(b"\n") == 3


def test_what_is_not_on_this_machine_is_refused_by_name() -> None:
    far = f"""
[[environment.artifacts]]
id = "far"
source = "https://127.0.0.1:1/x.tar"
digest = "sha256:{"ab" * 32}"
target = "/opt/far"
"""
    host = "mounts = [{{ target = '/opt/m', kind = 'host-read-only', source = '{}' }}]"
    taken = "mounts = [{ target = '/usr/made-up', kind = 'tmpfs' }]"
    present = "absent_files = ['/workspace/readme', '/usr/bin', '/nothing']"
    cases: list[tuple[str, str, str]] = [
        (far, "artifact-unreachable", "x.tar"),
        (host.format("/nowhere/here"), "mount-missing", "/nowhere/here"),
        (host.format("/"), "mount-refused", "/"),
        (host.format("/proc/1"), "mount-refused", "/proc"),
        (taken, "target-taken", "/usr/made-up"),
        (present, "files-present", "/workspace/readme, /usr/bin"),
    ]
    with open_trial() as trial:
        for environment, error, word in cases:
            trial.write(environment)
            with raises_code(error) as raised:
                trial.open()
            assert word in str(raised.value)
            assert "/nothing" not in str(raised.value)
        assert trial.list_leftovers() == []


def test_a_file_that_changed_since_it_was_loaded_is_not_used() -> None:
    environment = "[[environment.files]]\nsource = 'a'\ntarget = '/opt/a'\n"
    with open_trial(environment, files={"a": "1"}) as trial:
        loaded = load_contract(trial.directory)
        (trial.directory / "a").write_text("2")
        settings = InstallationSettings(cache=trial.cache, home=trial.place, variables={})
        with raises_code("contract-changed"):
            open_installation(loaded, settings)


def test_mounts_have_their_size_and_a_cache_holds_what_setup_put_there() -> None:
    environment = """
mounts = [
    { target = "/tmp", kind = "tmpfs", size_mb = 3 },
    { target = "/opt/scratch", kind = "tmpfs", size_mb = 2 },
    { target = "/opt/cache", kind = "cache" },
    { target = "/opt/shown", kind = "host-read-only", source = "SHOWN" },
]
"""
    setup = "[[setup]]\nrun = 'echo warm > /opt/cache/state; echo gone > /opt/scratch/x'\n"
    with open_trial() as trial:
        (trial.place / "shown").mkdir()
        (trial.place / "shown" / "note").write_text("from the host\n")
        trial.write(environment.replace("SHOWN", str(trial.place / "shown")), setup)
        with trial.open() as installation:
            look = (
                "cat /opt/cache/state /opt/shown/note; ls -A /opt/scratch; : > /opt/scratch/y; echo writable;"
                "for d in /tmp /opt/scratch; do head -c 4M /dev/zero > $d/big; stat -c %s $d/big; done;"
                "touch /opt/shown/y /opt/cache/y"
            )
            result = shell(installation, look)
        lines = result.stdout.prefix.decode().split()
        assert lines == ["warm", "from", "the", "host", "writable", str(3 * 2**20), str(2 * 2**20)]
        assert result.stderr.prefix.count(b"Read-only file system") == 2


def test_a_service_answers_is_asked_to_stop_and_is_gone_afterwards() -> None:
    with (
        open_trial(SERVICE, files={"server.py": SERVER}) as trial,
        trial.open() as installation,
        installation.open_workspace() as workspace,
    ):
        for phase in ("act", "accept"):
            seen: list[SyscallRecord] = []
            with installation.open_sandbox(
                workspace, SandboxRequest(phase=phase), sink=seen.append
            ) as sandbox:
                assert seen == []
                greeting = sandbox.run(CommandSpec(argv=("bash", "-c", GREET)))
                assert greeting.stdout.prefix == b"good day"
            assert seen or installation.capabilities.syscall_audit != "notify"
            started = {record.number for record in seen if isinstance(record, StartRecord)}
            ended = {record.number for record in seen if isinstance(record, EndRecord)}
            assert ended == started, "no end of what the harness started itself, and none is missing"
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("service ")]


def test_a_service_that_is_not_ready_is_named_with_what_it_said() -> None:
    late = """
[[environment.services]]
id = "greeter"
run = "echo starting; touch /tmp/said; exec sleep infinity"
readiness = { kind = "command", run = "until [ -e /tmp/said ]; do :; done; false", timeout_seconds = 1 }
"""
    ended = SERVICE.replace("exec /usr/bin/python3", "echo alas >&2; exit 3;")
    broken = SERVICE.replace('id = "greeter"', 'id = "greeter"\ninitialize = "echo bad >&2; false"')
    cases = [
        (late, ["greeter", "until [ -e /tmp/said ]", "within 1 s", "starting"]),
        (ended, ["greeter", "port 8123", "exit code 3", "alas"]),
        (broken, ["greeter", "initialize", "bad"]),
    ]
    with open_trial() as trial:
        for environment, words in cases:
            trial.write(environment, files={"server.py": SERVER})
            with trial.open() as installation, installation.open_workspace() as workspace:
                with raises_code("service-not-ready") as raised:
                    installation.open_sandbox(workspace, SandboxRequest(phase="act"))
                assert all(word in str(raised.value) for word in words), raised.value
                # One that does not run in a phase stops nobody there.
                with installation.open_sandbox(
                    workspace, SandboxRequest(phase="act", has_services=False)
                ) as sandbox:
                    assert sandbox.run(CommandSpec(argv=("true",))).exit == Exited(code=0)


def test_a_service_has_state_of_its_own_in_every_phase() -> None:
    environment = """
[[environment.services]]
id = "store"
run = "echo run >> /var/lib/store/log; exec sleep infinity"
initialize = "ls -A /var/lib/store; echo made > /var/lib/store/log"
data = "/var/lib/store"
readiness = { kind = "command", run = "grep -q run /var/lib/store/log", interval_ms = 20 }
phases = ["accept"]
"""
    told: list[HostExecution] = []
    with open_trial(environment) as trial, trial.open() as installation, telling(told.append):
        for _ in range(2):
            result = shell(installation, "cat /var/lib/store/log", phase="accept")
            assert result.stdout.prefix == b"made\nrun\n"
        ready = [each for each in told if ": ready at try " in each.name]
        assert [(each.purpose, each.exit) for each in ready] == [("service", Exited(code=0))] * 2
        assert shell(installation, "ls /var/lib/store", phase="act").exit != Exited(code=0)


def test_levels_decide_how_the_workspace_is_made_and_a_missing_one_is_refused() -> None:
    with open_trial() as trial:
        with trial.open() as installation, installation.open_workspace() as workspace:
            assert installation.level is Level.L3
            assert isinstance(workspace, OverlayWorkspace)
            assert isinstance(installation.facts.environment, HostEnvironment)
        with raises_code("isolation-level", match="needs isolation L3"):
            trial.open(level=Level.L2)
        trial.write('isolation = "L2"')
        with trial.open(level=Level.L2) as installation, installation.open_workspace() as workspace:
            assert isinstance(workspace, CopyWorkspace)
        trial.write("system_calls = ['mount']")
        with raises_code("isolation-level", match="system_calls"):
            trial.open()


def test_programs_of_an_image_run_and_one_that_nobody_imported_is_refused() -> None:
    reference = 'kind = "reference", reference = "registry.example.org/x@sha256:' + "0" * 64 + '"'
    setup = "[[setup]]\nrun = 'cat /etc/of-the-image > made; echo $IMAGE_SAYS >> made'\n"
    with open_trial() as trial:
        trial.write(image=f"{{ {reference} }}")
        with raises_code("image-not-stored"):
            trial.open()
        builder = ImageBuilder()
        builder.run["Env"] = ["IMAGE_SAYS=hello", "PATH=/usr/bin:/bin"]
        builder.add_layer(*_list_members("/bin/bash", "/bin/cat"), file("etc/of-the-image", b"mine\n"))
        builder.write_archive(trial.directory / "image.tar")
        trial.write(setup=setup, image='{ kind = "archive", path = "image.tar" }')
        with trial.open() as installation:
            result = shell(installation, "cat made; [ -e /usr/bin/git ] || echo no git")
            assert isinstance(installation.facts.environment, ImageEnvironment)
            # Asked inside: the host has more.
            (said,) = installation.facts.toolchain.items()
            assert said[0] == "bash"
            assert isinstance(said[1], str)
            assert installation.facts.package_managers == {}
        assert result.stdout.prefix == b"mine\nhello\nno git\n"


def test_node_packages_of_a_lock_are_where_programs_look_for_them() -> None:
    data, integrity = build_node_package("parcel", "1.0.0", {"index.js": "module.exports = 'parcel runs'\n"})
    environment = """
tools = { node = ">=16", npm = ">=7" }
node = { lock = "package-lock.json", manifest = "package.json" }
"""
    setup = "[[setup]]\nrun = 'node use.js > built'\n"
    with open_trial() as trial, serve({"/parcel.tgz": data}) as address:
        package = {"version": "1.0.0", "resolved": f"{address}/parcel.tgz", "integrity": integrity}
        described = {"name": "app", "version": "1.0.0", "dependencies": {"parcel": "1.0.0"}}
        lock = {
            "name": "app",
            "lockfileVersion": 3,
            "requires": True,
            "packages": {"": described, "node_modules/parcel": package},
        }
        files = {"package.json": json.dumps(described), "package-lock.json": json.dumps(lock)}
        repo = {"use.js": "console.log(require('parcel'))\n", ".gitignore": "node_modules\n"}
        trial.write(environment, setup, files=files, repo=repo)
        home = trial.place / "home"
        home.mkdir()
        (home / ".npmrc").write_text(f"registry={address}\nfetch-retries=0\n")
        try:
            installation = trial.open()
        except MachineError as error:
            if error.code != "host-tools-unmet":
                raise
            pytest.skip(str(error))
        with installation, installation.open_workspace() as workspace:
            with installation.open_sandbox(workspace, SandboxRequest(phase="act", stage="read")) as sandbox:
                script = "cat built; node use.js; echo $PATH; touch node_modules/x; git status -s"
                result = sandbox.run(CommandSpec(argv=("bash", "-c", script)))
            assert [*workspace.iter_changes()] == []
            assert installation.facts.mirrors == (address,)
            locks = installation.facts.lockfiles
            assert isinstance(locks, tuple)
            assert [(item.path, item.origin) for item in locks] == [("package-lock.json", "contract")]
        lines = result.stdout.prefix.decode().splitlines()
        assert lines[:2] == ["parcel runs"] * 2
        assert lines[2].startswith("/workspace/node_modules/.bin:")
        assert lines[3:] == ["?? built"]
        assert b"Read-only file system" in result.stderr.prefix


def test_several_threads_use_one_installation() -> None:
    setup = "[[setup]]\nrun = 'echo 1 > made'\n"
    with open_trial(setup=setup) as trial, trial.open() as installation:
        results: list[bytes] = []

        def work(number: int) -> None:
            results.append(shell(installation, f"cat made; echo {number} > own; cat own").stdout.prefix)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == [f"1\n{number}\n".encode() for number in range(4)]


def test_scratch_is_shown_and_belongs_to_whoever_works_inside() -> None:
    with (
        open_trial() as trial,
        trial.open() as installation,
        installation.open_workspace() as workspace,
        installation.open_scratch() as place,
    ):
        place.write("briefing.md", b"read me\n")
        bind = Bind(source=place.path, target="/opt/agent", is_writable=True)
        with installation.open_sandbox(workspace, SandboxRequest(phase="act", binds=(bind,))) as sandbox:
            script = "cat /opt/agent/briefing.md; echo > /opt/agent/x"
            result = sandbox.run(CommandSpec(argv=("sh", "-c", script)))
        assert result.exit == Exited(code=0)
        assert result.stdout.prefix == b"read me\n"
        assert (place.path / "x").exists()


def test_packages_of_a_lock_for_an_image_without_an_interpreter_are_refused_with_a_way_out() -> None:
    with open_trial() as trial:
        ImageBuilder().add_layer(file("etc/empty")).write_archive(trial.directory / "image.tar")
        trial.write(
            'python = { lock = "requirements.lock" }\n',
            files={"requirements.lock": f"six==1.17.0 --hash=sha256:{'0' * 64}\n"},
            image='{ kind = "archive", path = "image.tar" }',
        )
        with raises_code("image-packages") as raised:
            trial.open()
        assert "image that has the interpreter" in raised.value.hint
        assert trial.list_leftovers() == []
