"""Builds the observer for the QEMU that will load it."""

import hashlib
import re
import subprocess
import tempfile
from pathlib import Path

from qemu import disk
from qemu.emulator import ROOT, Emulator, Unfit, for_a_grade

SOURCE, HEADER = ROOT / "qemu/observer.c", ROOT / "qemu/plugin.h"
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", f"-I{HEADER.parent}"]
OLDEST = 4  # the first version of the plugin interface that reads registers and memory
# A plugin that every QEMU refuses to load; the error message has the version of QEMU's plugin
# interface.
FUTURE = ("int qemu_plugin_version = 0x7fffffff; int qemu_plugin_install(void); int "
          "qemu_plugin_install(void) { return 1; }\n")


def compile_c(source: Path, plugin: Path, *flags: str) -> None:
    """Raises Unfit if there is no compiler, or no room for what it writes."""
    try:
        done = subprocess.run(["gcc", *FLAGS, *flags, "-o", str(plugin), str(source)],
                              capture_output=True, text=True, check=False)
    except OSError as error:
        raise Unfit(f"the observer cannot be compiled, for there is no gcc ({error.strerror}): "
                    "type make setup") from error
    if done.returncode:
        raise Unfit(disk.told(done.stderr, ROOT / "build")
                    or f"the observer does not compile:\n{done.stderr}")


def interface(emulator: Emulator, scratch: Path) -> int:
    """The version of QEMU's plugin interface, which does not follow from QEMU's version."""
    source, plugin = scratch / "future.c", scratch / "future.so"
    disk.write_whole(source, FUTURE)
    compile_c(source, plugin)
    done = subprocess.run([*emulator.command(), "-M", "none", "-nodefaults", "-display", "none",
                           "-plugin", str(plugin)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=600, check=False)
    found = re.search(r"supports only up to version (\d+)", done.stderr)
    if not found:
        said = done.stderr.strip().partition("\n")[0]
        raise Unfit(f"{emulator} loads no plugins, which a grade needs: "
                    f"{said or f'exit status {done.returncode}'}")
    if int(found[1]) < OLDEST:
        raise Unfit(f"{emulator} has plugin interface {found[1]}; a grade needs {OLDEST} or newer")
    return int(found[1])


def build(arch: str) -> Path:
    """Build the observer for the QEMU of a grade, if it is not there. Its file name has a digest of
    its sources. Raises Unfit if it cannot be built."""
    emulator = for_a_grade(arch)
    made_of = "\n".join([emulator.version_line, *FLAGS, SOURCE.read_text(),
                         HEADER.read_text()]).encode()
    version, made = ".".join(map(str, emulator.version)), hashlib.sha256(made_of).hexdigest()[:16]
    plugin = ROOT / f"build/qemu/observer-{version}-{made}.so"
    if plugin.exists():
        return plugin
    plugin.parent.mkdir(parents=True, exist_ok=True)
    # two boots may build it at once, and neither may load an incomplete file
    with tempfile.TemporaryDirectory(dir=plugin.parent) as scratch:
        new = Path(scratch) / plugin.name
        compile_c(SOURCE, new, f"-DPLUGIN_VERSION={interface(emulator, Path(scratch))}")
        new.replace(plugin)
    return plugin
