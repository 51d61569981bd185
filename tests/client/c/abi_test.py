"""The C header's sizes, offsets, numbers and signatures are those of abi.txt beside this test.

Programs were compiled with them: a line there that changes breaks those programs. `abi_test.py
--record` writes the list anew, for what was added.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
INCLUDE = FOLDER.parents[2] / "include"
RECORDED = FOLDER / "abi.txt"


def declarations():
    """The header without comments and preprocessor lines, each declaration in one line."""
    text = (INCLUDE / "farpage/farpage.h").read_text()
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"^#([^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
    return re.sub(r"\s+", " ", text)


def functions(text):
    """{name: signature}"""
    exported = re.findall(r"FARPAGE_API ([^;]*?(\w+)\([^;]*\));", text)
    return {name: signature for signature, name in exported}


def lines_of_structs(text):
    """Statements in C that print a line for each struct, field and number."""
    for tag, body, name in re.findall(r"typedef struct (\w+) \{([^}]*)\} (\w+);", text):
        yield f'printf("struct %s, %zu bytes\\n", "{name}", sizeof({name}));'
        for field in filter(None, (field.strip() for field in body.split(";"))):
            member = re.search(r"\(\*(\w+)\)|(\w+)(?:\[\d+\])?$", field)
            member = member[1] or member[2]
            place = f"offsetof({name}, {member}), sizeof((({name}*)0)->{member})"
            yield f'printf("struct %s, from %zu on %zu bytes: %s\\n", "{name}", {place}, "{field}");'
    for body, name in re.findall(r"typedef enum \w+ \{([^}]*)\} (\w+);", text):
        yield f'printf("enum %s, %zu bytes\\n", "{name}", sizeof({name}));'
        for constant in re.findall(r"(\w+) =", body):
            yield f'printf("enum %s: %s = %d\\n", "{name}", "{constant}", (int){constant});'


def exported():
    """{symbol of libfarpage.so: the version it belongs to}"""
    listed = subprocess.run(["nm", "-D", "--defined-only", os.environ["FARPAGE_LIBRARY"]], capture_output=True, text=True, check=True)
    symbols = [line.split()[-1].partition("@@") for line in listed.stdout.splitlines()]
    # A version is a symbol too, of itself.
    return {name: version for name, _, version in symbols if name != version}


def abi():
    text = declarations()
    statements = "\n".join(lines_of_structs(text))
    source = f"#include <farpage/farpage.h>\n#include <stdio.h>\nint main(void) {{\n{statements}\nreturn 0;\n}}\n"
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "abi"
        command = [os.environ.get("CC", "cc"), "-std=c99", f"-I{INCLUDE}", "-xc", "-", "-o", str(program)]
        subprocess.run(command, input=source, text=True, check=True)
        printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    return [*printed.splitlines(), *(f"function {each}" for each in functions(text).values()),
            *(f"symbol {name}@{version}" for name, version in exported().items())]


class AbiTest(unittest.TestCase):
    maxDiff = None

    def test_nothing_has_changed(self):
        self.assertEqual(sorted(abi()), sorted(RECORDED.read_text().splitlines()))

    def test_the_library_exports_what_the_header_declares_and_no_more(self):
        self.assertEqual(set(exported()), set(functions(declarations())))


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        RECORDED.write_text("\n".join(abi()) + "\n")
    else:
        unittest.main()
