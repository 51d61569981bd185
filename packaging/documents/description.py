"""What a program says of itself (PROGRAM --describe): its commands and their options."""

import dataclasses
import json
import re
import subprocess

# CLI11's names of types, for readers.
VALUE_NAMES = {"UINT": "N", "INT": "N", "FLOAT": "NUMBER"}
RANGE = re.compile(r"\w+ in \[(.+) - (.+)\]")


@dataclasses.dataclass
class Option:
    names: list  # "-h", "--help"; none for a positional
    positional: str  # its name, or nothing
    value: str  # what stands for it in a synopsis; nothing: a flag
    choices: list
    range: tuple  # least and greatest, or nothing
    default: str
    required: bool
    repeats: bool
    needs: list
    excludes: list
    text: str

    @property
    def takes_file(self):
        return self.value in ("FILE", "FOLDER", "DIR", "PATH", "ADDRESS")


@dataclasses.dataclass
class Command:
    path: tuple  # ("farpage", "bench", "fetch")
    text: str
    options: list
    commands: list

    @property
    def page(self):
        return "-".join(self.path)

    def every(self):
        """This command and all below it."""
        yield self
        for command in self.commands:
            yield from command.every()


def _option(described):
    """CLI11 joins the type, and what restricts it, by colons: UINT:COUNT:UINT in [1 - 86400]."""
    fields = dict(described)
    name, choices, bounds = "", [], ()
    for part in fields.pop("value").split(":"):
        if part.startswith("{"):
            choices = part.strip("{}").split(",")
        elif match := RANGE.fullmatch(part):
            bounds = match.groups()
        else:
            name = VALUE_NAMES.get(part, part)
    return Option(value="|".join(choices) or name, choices=choices, range=bounds, **fields)


def _command(described, above):
    path = (*above, described["name"])
    options = [_option(option) for option in described["options"]]
    return Command(path, described["text"], options, [_command(below, path) for below in described["commands"]])


def parse(text):
    return _command(json.loads(text), ())


def describe(program):
    described = subprocess.run([program, "--describe"], stdout=subprocess.PIPE, text=True, check=True)
    return parse(described.stdout)
