#!/usr/bin/env python3
"""Makes manual pages and completions from the programs' own words, and from configs/:

make_documents.py --out SHARE --version V --date YYYY-MM-DD --configs FOLDER PROGRAM...

SHARE gets man/, bash-completion/, zsh/ and fish/, as /usr/share has them.
"""

import argparse
import gzip
import pathlib
import shutil

import completion
import description
import manual


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_page(share, name, section, text):
    path = share / "man" / f"man{section}" / f"{name}.{section}.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--date", required=True)
    parser.add_argument("--configs", type=pathlib.Path, required=True)
    parser.add_argument("programs", nargs="+")
    arguments = parser.parse_args()
    share = arguments.out
    shutil.rmtree(share, ignore_errors=True)  # pages of commands that are no more
    for path in arguments.programs:
        program = description.describe(path)
        for command in program.every():
            text = manual.command_page(command, arguments.date, arguments.version)
            write_page(share, command.page, 1, text)
        write(share / "bash-completion" / "completions" / program.page, completion.bash(program))
        write(share / "zsh" / "vendor-completions" / f"_{program.page}", completion.zsh(program))
        write(share / "fish" / "vendor_completions.d" / f"{program.page}.fish", completion.fish(program))
    files = [(title, (arguments.configs / name).read_text()) for title, name in (("NODES", "node.toml"), ("CLIENTS", "client.toml"))]
    page = manual.configuration_page(files, arguments.date, arguments.version)
    write_page(share, manual.CONFIGURATION, 5, page)


if __name__ == "__main__":
    main()
