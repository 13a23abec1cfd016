"""Unpacks QEMU 10 from bookworm-backports on Debian 12: a part of `make setup`.

Debian 12 has QEMU 7.2, which runs the kernel but whose plugins see no register.
The newer packages are unpacked in build/, and not installed: that needs no
rights, and changes neither apt's lists nor an installed package. apt
fetches them with lists made for this, and checks Debian's signature on them. The
libraries that they need are those of Debian 12's QEMU, which is installed too.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from qemu import disk, emulator  # noqa: E402
from qemu.emulator import GRADES, Unfit, find, look, short  # noqa: E402
from qemu.isa import ISAS  # noqa: E402

SUITE = "bookworm"
# Packages: the two emulators, the data that both read, and riscv64's firmware.
PACKAGES = [
    "qemu-system-riscv", "qemu-system-arm", "qemu-system-common", "qemu-system-data", "opensbi"
]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# apt uses this host's proxies and similar settings, but its own package lists, cache and status. By
# hash: a proxy may have kept an older list under the list's name.
SETTINGS = """
Dir::State "{here}/state"; Dir::State::status "/dev/null"; Dir::Cache "{here}/cache";
Dir::Etc::sourcelist "{here}/sources.list"; Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null"; Dir::Etc::preferencesparts "/dev/null";
APT::Get::AllowUnauthenticated "false"; Acquire::AllowInsecureRepositories "false";
Acquire::Languages "none"; Acquire::Retries "2"; Acquire::By-Hash "force"; APT::Sandbox::User "";
#clear APT::Update::Pre-Invoke; #clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


def too_old() -> list[str]:
    """A line for each architecture whose QEMU is missing or too old for a grade: its version, or
    why there is none."""
    wrong = []
    for arch in ISAS:
        try:
            found = find(arch)
            if found.version < GRADES:
                wrong.append(str(found))
        except Unfit as why:
            wrong.append(str(why))
    return wrong


def run(*command: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              cwd=cwd, check=False)
    except OSError as error:
        raise Unfit(str(error)) from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if not line.startswith("W:")]
        raise Unfit(f"{command[0]}: {said[0] if said else f'exit status {done.returncode}'}")
    return done.stdout


def release() -> str:
    return platform.freedesktop_os_release().get("VERSION_CODENAME", "")


def mirror() -> str:
    """The Debian mirror of this host, from either format of its list of sources."""
    found = re.search(rf"'(\S+)/dists/{release()}/(?:In)?Release'",
                      run("apt-get", "update", "--print-uris"))
    if not found:
        raise Unfit(f"apt's sources do not name {release()}")
    return found[1]


def lists(here: Path, suite: str, architecture: str = "") -> Path:
    """The settings of an apt with its own lists of that suite; for another architecture than the
    host's, if one is named."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (here / name).mkdir(parents=True)
    conf, foreign = (here / "apt.conf",
                     f'APT::Architecture "{architecture}"; APT::Architectures "{architecture}";')
    conf.write_text(SETTINGS.format(here=here) + (foreign if architecture else ""))
    (here / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror()} {suite} main\n")
    run("apt-get", "-qq", "-c", str(conf), "update")
    return conf


def unpack(conf: Path, *packages: str) -> Path:
    """A folder with these packages, unpacked, beside the settings."""
    run("apt-get", "-qq", "-c", str(conf), "download", *packages, cwd=conf.parent)
    for package in conf.parent.glob("*.deb"):
        run("dpkg", "-x", str(package), str(conf.parent / "tree"))
    return conf.parent / "tree"


def debian_12() -> bool:
    return release() == SUITE


def download() -> None:
    unpacked = emulator.UNPACKED
    unpacked.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="qemu-download-", dir=unpacked.parent) as here:
        tree = unpack(lists(Path(here), f"{SUITE}-backports"), *PACKAGES)
        for isa in ISAS.values():
            look(tree / "usr/bin" / isa.emulator)  # raises Unfit with the name of a missing library
        if too_old():  # otherwise another make has installed it meanwhile
            shutil.rmtree(unpacked, ignore_errors=True)
            tree.rename(unpacked)


def main() -> int:
    wrong = too_old()
    if not wrong or os.environ.get("QEMU_DIR"):
        return 0
    needed = (
        f"A grade needs QEMU {'.'.join(map(str, GRADES))}, and this host has: {'; '.join(wrong)}.")
    if not debian_12():
        print(f"{needed} Build or install one, and set QEMU_DIR to its folder.")
        return 1
    print(f"Fetching QEMU 10 from {SUITE}-backports into {short(emulator.UNPACKED)} (21 MB) ...",
          flush=True)
    try:
        download()
        wrong = too_old()
    except Unfit as why:
        wrong = [str(why)]
    if wrong:
        print(f"{needed} It could not be fetched: {'; '.join(wrong)}. All but make grade works; to "
              "try again, type make setup.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(disk.ended(main, "QEMU 10 could not be fetched", 1, emulator.UNPACKED.parent))
