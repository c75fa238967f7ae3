"""Fetches the C header of ONNX Runtime from Debian's archive and prints the folder that holds it.

No Python package ships the header. Debian 13 (trixie) packages it as libonnxruntime-dev; on an older Debian apt can
download that package, without installing it, once it knows about the suite. Here apt works in folders of its own:
nothing on the system changes and root isn't needed. The mirror is the one that the system's own sources name.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HEADER = "onnxruntime_c_api.h"
SHA256 = "7783e9664bdb0b1b36145b5c8587dd1bc9a399aa000edf2e3dd03003cafc6882"  # of libonnxruntime-dev 1.21.0
PACKAGE = "libonnxruntime-dev"
SUITE = "trixie"
DEBIAN_SUITES = {"bullseye", "bookworm", "trixie", "forky", "sid", "oldoldstable", "oldstable", "stable", "testing"}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SOURCES = Path("/etc/apt")

HELP = f"""\
The C header of ONNX Runtime, {HEADER}, is needed to build dpiframe and could not be fetched:
  {{problem}}
Do one of these, then build again:
  - set ONNXRUNTIME_INCLUDE_DIR to a folder that holds the header, version 1.18 or newer
    (it is in ONNX Runtime's release archives under include/)
  - on Debian 13 or newer: apt-get install {PACKAGE}
  - on Debian 12: give this machine network access to its apt mirror and the package debian-archive-keyring"""


class FetchError(Exception):
    pass


def cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "dpiframe" / f"onnxruntime-headers-{SHA256[:12]}"


def is_wanted(header: Path) -> bool:
    return header.is_file() and hashlib.sha256(header.read_bytes()).hexdigest() == SHA256


def one_line_entries(text: str) -> list[tuple[str, str]]:
    """(URI, suite) of each `deb` line of a sources.list file."""
    entries = []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words or words[0] != "deb":
            continue
        rest = " ".join(words[1:])
        if rest.startswith("["):
            rest = rest.partition("]")[2]
        fields = rest.split()
        if len(fields) >= 3 and "main" in fields[2:]:
            entries.append((fields[0], fields[1]))
    return entries


def stanza_entries(text: str) -> list[tuple[str, str]]:
    """(URI, suite) of each stanza of a .sources file."""
    entries = []
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for stanza in "\n".join(lines).split("\n\n"):
        fields: dict[str, str] = {}
        key = ""
        for line in stanza.splitlines():
            if line[:1].isspace():
                fields[key] = f"{fields.get(key, '')} {line.strip()}"
            else:
                key, _, value = line.partition(":")
                key = key.strip().lower()
                fields[key] = value.strip()
        if fields.get("enabled", "yes").lower() == "no" or "main" not in fields.get("components", "").split():
            continue
        if "deb" in fields.get("types", "").split():
            entries += [(uri, suite) for uri in fields.get("uris", "").split() for suite in fields["suites"].split()]
    return entries


def mirror() -> str:
    """The first URI that the machine's apt sources name for a suite of Debian itself."""
    files = [SOURCES / "sources.list", *sorted((SOURCES / "sources.list.d").glob("*"))]
    for file in files:
        if not file.is_file():
            continue
        entries = one_line_entries if file.suffix == ".list" else stanza_entries
        for uri, suite in entries(file.read_text(errors="replace")):
            if suite in DEBIAN_SUITES:
                return uri
    raise FetchError(f"no apt source under {SOURCES} names a Debian mirror")


def run(command: list[str], folder: Path) -> None:
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FetchError(f"{command[0]} failed: {error}") from error
    if result.returncode != 0:
        lines = (result.stderr or result.stdout).strip().splitlines() or ["no output"]
        reason = next((line for line in lines if line.startswith("E:")), lines[-1])
        raise FetchError(f"{command[0]} failed: {reason.removeprefix('E:').strip()}")


def download(folder: Path) -> Path:
    """Downloads and unpacks the package below a folder; returns the header."""
    if not KEYRING.is_file():
        raise FetchError(f"{KEYRING} is missing")
    source_list = folder / "sources.list"
    source_list.write_text(f"deb [signed-by={KEYRING}] {mirror()} {SUITE} main\n")
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    options = {
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": source_list,
        "Dir::Etc::sourceparts": "-",
        "Dir::Etc::preferences": "-",
        "Dir::Etc::preferencesparts": "-",
        "Acquire::Languages": "none",
        "APT::Update::Error-Mode": "any",
    }
    if os.geteuid() == 0:
        options["APT::Sandbox::User"] = "root"  # the folders here are closed to apt's own user
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
    run([*apt, "update"], folder)
    run([*apt, "download", PACKAGE], folder)
    packages = list(folder.glob(f"{PACKAGE}_*.deb"))
    if not packages:
        raise FetchError(f"apt-get downloaded no {PACKAGE}")
    run(["dpkg-deb", "-x", str(packages[0]), str(folder / "package")], folder)
    for header in (folder / "package").rglob(HEADER):
        if not is_wanted(header):
            raise FetchError(f"{packages[0].name} holds another {HEADER} than the one that dpiframe was tested with")
        return header
    raise FetchError(f"{packages[0].name} holds no {HEADER}")


def fetch() -> Path:
    folder = cache_folder()
    if not is_wanted(folder / HEADER):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as work:
            header = download(Path(work))
            # The C++ headers beside it are for programs that use the library; the C header, the mark of success, last.
            for found in sorted(header.parent.glob("*.h"), key=lambda file: file.name == HEADER):
                shutil.copyfile(found, folder / f"{found.name}.new")
                (folder / f"{found.name}.new").replace(folder / found.name)
    return folder


def main() -> int:
    try:
        print(fetch())
    except (FetchError, OSError) as error:
        print(HELP.format(problem=error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
