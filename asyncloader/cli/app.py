"""The commands, and what is the same for all of them: how they fail, are interrupted, and end when nobody reads on."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from asyncloader import __version__
from asyncloader.cli.bench import bench
from asyncloader.cli.demo import demo
from asyncloader.cli.index import index
from asyncloader.cli.info import info
from asyncloader.cli.pack import pack
from asyncloader.cli.unpack import unpack
from asyncloader.cli.verify import verify
from asyncloader.errors import AsyncLoaderError

__all__ = ["app", "run"]


class _Commands(TyperGroup):
    """Runs a command; what goes wrong becomes one message and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except (AsyncLoaderError, OSError) as error:
            if _reader_is_gone(error):
                _let_go_of_stdout()
                raise typer.Exit(1) from None
            if ctx.params["traceback"]:
                raise
            print(f"asyncloader: error: {_describe(error)}", file=sys.stderr)
            raise typer.Exit(1) from error
        return result


app = typer.Typer(
    cls=_Commands,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command(epilog="Examples:\n\nasyncloader demo\n\nasyncloader demo train.rec --workers processes")(demo)
app.command(epilog="Examples:\n\nasyncloader info train.rec\n\nasyncloader info train.rec --sheet sheet.png")(info)
app.command(epilog="Examples:\n\nasyncloader index train.rec\n\nasyncloader index train.rec -o other.idx")(index)
app.command(epilog="Examples:\n\nasyncloader verify train.rec\n\nasyncloader verify bad.rec --repair good.rec")(verify)
app.command(
    epilog="Examples:\n\nasyncloader pack photos/ train.rec\n\nasyncloader pack train.lst train.rec --resize 256"
)(pack)
app.command(epilog="Examples:\n\nasyncloader unpack train.rec photos/")(unpack)
app.command(epilog="Examples:\n\nasyncloader bench train.rec\n\nasyncloader bench train.rec --num-workers 4")(bench)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"asyncloader {__version__}")
        raise typer.Exit


@app.callback(epilog="Each command has its own help: asyncloader info --help")
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    traceback: Annotated[
        bool,
        typer.Option(
            "--traceback", envvar="ASYNCLOADER_TRACEBACK", help="Show where in the program an error was raised."
        ),
    ] = False,
) -> None:
    """Look into RecordIO files, check them, make them, and load from them."""


def run() -> None:
    """Run the command line, and exit with its status."""
    for stream in (sys.stdout, sys.stderr):
        # A file's name may hold what the terminal's encoding does not.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    warnings.formatwarning = _format_warning
    # What Pillow warns of in damaged pictures comes out as an error, or does not matter.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    app(prog_name="asyncloader")


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    return f"asyncloader: warning: {message}\n"


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, AsyncLoaderError) and error.strerror:
        return f"{os.path.abspath(error.filename)}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _reader_is_gone(error: Exception) -> bool:
    """Whether standard output is a pipe that nobody reads any more, as after ``| head``."""
    if isinstance(error, BrokenPipeError):
        return True
    # Windows has no such error of its own for a pipe.
    return sys.platform == "win32" and isinstance(error, OSError) and error.errno == errno.EINVAL and not error.filename


def _let_go_of_stdout() -> None:
    """Give what is still to be written to nobody, so that Python's end does not fail on it again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
