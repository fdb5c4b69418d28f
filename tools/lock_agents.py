"""Write the lock files of adapters for this platform: `python tools/lock_agents.py [--python PROGRAM] FILE…`.

An adapter that has no entry for the platform gets a line to add on standard output. Addresses of a registry
are left out of npm's locks: whoever installs has a registry of their own.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

_EXTRAS = re.compile(r"([A-Za-z0-9._-]+)\s*\[([^\]]+)\]")
_OPTIONS = ("--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund", "--include=peer")


def main() -> None:
    """Lock what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("adapters", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that Python agents run on")
    options = parser.parse_args()
    machine = f"{platform.system().lower()}-{platform.machine()}"
    for path in options.adapters:
        recipe = tomllib.loads(path.read_text(encoding="utf-8"))["install"]
        if recipe["kind"] == "npm":
            line = f'lock = "{(name := f"{path.stem}.lock.json")}"'
            text = lock_npm(recipe["packages"])
        else:
            tag = _ask(options.python)
            line = f'{machine}-{tag} = "{(name := f"{path.stem}.{machine}-{tag}.txt")}"'
            text = lock_pypi(recipe["requirements"], options.python)
        (path.parent / name).write_text(text, encoding="utf-8")
        print(f"{path.name}: {line}")


def lock_npm(packages: list[str]) -> str:
    """A `package-lock.json` without addresses."""
    wanted = dict(package.rsplit("@", 1) for package in packages)
    manifest = {"name": "programs", "version": "1.0.0", "private": True, "dependencies": wanted}
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "package.json").write_text(json.dumps(manifest), encoding="utf-8")
        subprocess.run(["npm", "install", *_OPTIONS], cwd=scratch, check=True)
        lock: dict[str, Any] = json.loads(Path(scratch, "package-lock.json").read_text(encoding="utf-8"))
    known = {path.rpartition("node_modules/")[2] for path in lock["packages"]}
    for package in lock["packages"].values():
        if not package.get("link"):
            package.pop("resolved", None)
        # What the registry does not have is for other machines; `npm ci` refuses a lock that names it.
        optional = package.get("optionalDependencies", {})
        for name in [name for name in optional if name not in known]:
            del optional[name]
    return json.dumps(lock, indent=1, ensure_ascii=False) + "\n"


def lock_pypi(requirements: list[str], python: str) -> str:
    """Requirements with the hash of the file that this platform takes."""
    command = [python, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    finished = subprocess.run(
        [*command, "--only-binary", ":all:", *requirements], check=True, stdout=subprocess.PIPE
    )
    report: dict[str, Any] = json.loads(finished.stdout)
    extras = _find_extras(report["install"])
    return "".join(sorted(_render(item, extras) for item in report["install"]))


def _render(item: dict[str, Any], extras: dict[str, str]) -> str:
    name = _normalize(item["metadata"]["name"])
    digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{name}{extras.get(name, '')}=={item['metadata']['version']} --hash=sha256:{digest}\n"


def _find_extras(items: list[dict[str, Any]]) -> dict[str, str]:
    """Extras that distributions ask of others: where hashes are required, pip wants them in the lock too."""
    extras: dict[str, set[str]] = {}
    for item in items:
        for line in item["metadata"].get("requires_dist", []):
            if "extra ==" not in line and (found := _EXTRAS.match(line)):
                extras.setdefault(_normalize(found[1]), set()).update(found[2].replace(" ", "").split(","))
    return {name: f"[{','.join(sorted(names))}]" for name, names in extras.items()}


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _ask(python: str) -> str:
    code = "import sys; print(f'cp{sys.version_info[0]}{sys.version_info[1]}')"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
