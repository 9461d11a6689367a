"""``python -m asyncloader`` is the command ``asyncloader``."""

from asyncloader.cli import main

# Spawned workers import the main module of the program that started them, under another name.
if __name__ == "__main__":
    main()
