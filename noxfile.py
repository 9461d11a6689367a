"""The checks and tests of the project, each in an environment of its own. `nox` alone runs all that this machine can.

`nox -s tests -- -k reader` hands what follows the two dashes to pytest.
"""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2026.10"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = False  # a session whose Python is not here is skipped, and says so
nox.options.allow_parallel = True
nox.options.parallel = 2
nox.options.report = ".nox/report.json"

RESULTS = Path(".nox", "results")  # from the project's folder, where sessions run
PYTHONS = ["3.11", "3.12", "3.13", "3.14", "3.14t"]
# numpy 1.23.5 is the oldest numpy supported and the newest that mxnet works with; its last wheels are for this Python.
OLDEST_PYTHON = "3.11"
FRAMEWORKS = ("mxnet", "torch", "jax")


def pytest_arguments(session: nox.Session, framework: str | None = None) -> list[str]:
    """What makes pytest run the tests of one framework, or all that need none."""
    results = RESULTS / f"{session.name}.xml"
    results.unlink(missing_ok=True)
    marks = framework or " and ".join(f"not {other}" for other in FRAMEWORKS)
    ignored = [f"--ignore=tests/{other}" for other in FRAMEWORKS if other != framework]
    return ["-m", marks, *ignored, f"--junitxml={results}", *session.posargs]


def lowest_dependencies() -> list[str]:
    """The hard dependencies, each at the lowest version that pyproject.toml admits."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [requirement.replace(">=", "==") for requirement in project["dependencies"]]


@nox.session
def lint(session: nox.Session) -> None:
    """Rules and format by ruff, and mypy as Linux, macOS and Windows see the code."""
    session.install(".[lint]")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    for platform in ("linux", "darwin", "win32"):
        session.run("mypy", f"--platform={platform}")


@nox.session
def tests(session: nox.Session) -> None:
    """The suite on this Python, with the newest of everything."""
    session.install(".[sagemaker,test]")
    session.run("pytest", *pytest_arguments(session))


@nox.session(python=PYTHONS, default=False)
def tests_on(session: nox.Session) -> None:
    """The suite on one of the supported Pythons: `nox -s tests_on-3.14t`."""
    session.install(".[sagemaker,test]")
    session.run("pytest", *pytest_arguments(session))


@nox.session(python=OLDEST_PYTHON)
def tests_oldest(session: nox.Session) -> None:
    """The suite with the oldest of every hard dependency, numpy 1.23.5 among them."""
    session.install(".[sagemaker,test]", *lowest_dependencies())
    session.run("pytest", *pytest_arguments(session))


@nox.session
def tests_as_macos(session: nox.Session) -> None:
    """What reads, and what has processes, without what Linux has and macOS has not."""
    if sys.platform != "linux":
        session.skip("only Linux has what this hides")
    session.install(".[test]")
    folders = [f"tests/{name}" for name in ("storage", "recordio", "reader", "loader")]
    files = [f"tests/processes/test_{name}.py" for name in ("batches", "ends", "shared_memory", "workers")]
    hide = {"PYTHONPATH": os.path.abspath("tests/as_macos")}  # its sitecustomize runs in every Python of the session
    session.run("python", "-c", "import os, sitecustomize; assert not hasattr(os, 'memfd_create')", env=hide)
    session.run("pytest", *pytest_arguments(session), *folders, *files, env=hide)


@nox.session(python=OLDEST_PYTHON)
def mxnet(session: nox.Session) -> None:
    """What is compared with the real mxnet 1.9.1. Its im2rec needs OpenCV; scikit-learn brings two photographs."""
    if sys.platform != "linux":
        session.skip("mxnet 1.9.1 works with Python 3.11 on Linux only")
    session.install(".[mxnet,test]", "opencv-python-headless==4.7.0.72", "scikit-learn>=1.2,<1.5")
    session.run("pytest", *pytest_arguments(session, "mxnet"))


@nox.session
def torch(session: nox.Session) -> None:
    """What is compared with the real PyTorch, and the trainers that take its loader."""
    session.install(".[test,torch]", "torch==2.13.0", "accelerate", "lightning")
    session.run("pytest", *pytest_arguments(session, "torch"))


@nox.session
def jax(session: nox.Session) -> None:
    """Batches as jax arrays, over four virtual devices of the CPU."""
    session.install(".[jax,test]")
    devices = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    session.run("pytest", *pytest_arguments(session, "jax"), env=devices)


@nox.session
def windows(session: nox.Session) -> None:
    """The suite on CPython for Windows, under Wine."""
    if sys.platform == "win32":
        session.skip("this is Windows: the session `tests` is it")
    wine = shutil.which("wine64", path=os.pathsep.join([os.environ["PATH"], "/usr/lib/wine"])) or shutil.which("wine")
    if wine is None:
        session.skip("CPython for Windows needs Wine, which is not here: Debian and Ubuntu have it as wine64")
    session.install("packaging", "pip>=24")
    run = ["python", "scripts/windows_tests.py", wine, str(Path(session.virtualenv.location) / "windows")]
    # Most of the time is spent waiting for Wine to start a process, so two at once.
    session.run(*run, *pytest_arguments(session), "-n2", "--timeout=120")
