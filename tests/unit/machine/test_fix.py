"""Installing bubblewrap: package managers of the test itself, in a search path of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial.machine._fix import install_bubblewrap

INSTALLS = 'printf "#!/bin/sh\\n" > "$(dirname "$0")/bwrap"; /bin/chmod +x "$(dirname "$0")/bwrap"'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    return tmp_path


def add_manager(place: Path, name: str, script: str) -> None:
    program = place / name
    program.write_text(f'#!/bin/sh\necho "{name} $*" >> "{place}/log"\n{script}\n')
    program.chmod(0o755)


def calls(place: Path) -> list[str]:
    log = place / "log"
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("apt-get", "apt-get install -y --no-install-recommends bubblewrap"),
        ("dnf", "dnf install -y bubblewrap"),
        ("apk", "apk add bubblewrap"),
        ("pacman", "pacman -S --noconfirm --needed bubblewrap"),
        ("zypper", "zypper --non-interactive install bubblewrap"),
    ],
)
def test_root_installs_and_others_are_told_how(place: Path, name: str, command: str) -> None:
    add_manager(place, name, INSTALLS)
    told = install_bubblewrap({}, is_root=False, search_path=str(place))
    assert (told.outcome, told.command, calls(place)) == ("to-be-run", f"sudo {command}", [])
    done = install_bubblewrap({}, is_root=True, search_path=str(place))
    assert (done.outcome, done.command, done.said) == ("installed", command, "")
    assert calls(place) == [command]
    again = install_bubblewrap({}, is_root=True, search_path=str(place))
    assert (again.outcome, len(calls(place))) == ("present", 1)


def test_a_machine_without_lists_of_packages_gets_them_first(place: Path) -> None:
    script = (
        f'case "$1" in update) : > "{place}/lists";; *) [ -e "{place}/lists" ] || exit 100; {INSTALLS};; esac'
    )
    add_manager(place, "apt-get", script)
    assert install_bubblewrap({}, is_root=True, search_path=str(place)).outcome == "installed"
    assert [line.split()[1] for line in calls(place)] == ["install", "update", "install"]


def test_what_goes_wrong_is_said_and_cannot_move_the_cursor(place: Path) -> None:
    add_manager(place, "dnf", r"printf 'no room \033[2J' >&2; exit 7")
    failed = install_bubblewrap({}, is_root=True, search_path=str(place))
    assert failed.outcome == "failed"
    assert failed.said.startswith("exit status 7: no room")
    assert "\033" not in failed.said


def test_a_manager_that_installs_nothing_is_not_believed(place: Path) -> None:
    add_manager(place, "apk", "exit 0")
    failed = install_bubblewrap({}, is_root=True, search_path=str(place))
    assert (failed.outcome, failed.said) == ("failed", "it ended well, yet there is no bwrap")


def test_a_machine_without_any_manager_is_told_so(place: Path) -> None:
    failed = install_bubblewrap({}, is_root=True, search_path=str(place))
    assert failed.outcome == "failed"
    assert "by hand" in failed.said


def test_only_proxies_of_the_operator_are_handed_on(place: Path) -> None:
    add_manager(place, "dnf", f'/usr/bin/env > "{place}/variables"; {INSTALLS}')
    variables = {"https_proxy": "http://proxy.example.org", "SECRET": "x"}
    install_bubblewrap(variables, is_root=True, search_path=str(place))
    seen = (place / "variables").read_text()
    assert "https_proxy=http://proxy.example.org" in seen
    assert "SECRET" not in seen
