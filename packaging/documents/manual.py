"""Manual pages in man(7): one for each command, and one for the files of the configuration."""

import re

EXIT_STATUS = (("0", "The command has done its work."), ("1", "It has failed."), ("2", "It was called wrongly."))
CONFIGURATION = "farpage.toml"


def escape(text):
    """As roff reads it: no dash becomes a hyphen, no line a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    text = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in text)
    return "\\&" + text if text.startswith(".") else text


def bold(text):
    return f"\\fB{escape(text)}\\fR"


def italic(text):
    return f"\\fI{escape(text)}\\fR"


def reference(page, section):
    return f"{bold(page)}({section})"


def short(text):
    """The first sentence, as whatis(1) shows it."""
    first = re.split(r"\. |: ", text)[0].rstrip(".")
    return first[0].lower() + first[1:]


def sentence(text):
    return text if text.endswith((".", "…")) else text + "."


class Page:
    def __init__(self, name, section, date, version):
        self._lines = [f'.TH "{escape(name.upper())}" "{section}" "{date}" "farpage {escape(version)}" "Farpage"']

    def add(self, *lines):
        self._lines.extend(lines)

    def section(self, title):
        self.add(f".SH {escape(title)}")

    def entry(self, heads, text):
        self.add(".TP", heads[0])
        for head in heads[1:]:
            self.add(".TQ", head)
        self.add(escape(text))

    def paragraph(self, text):
        if not self._lines[-1].startswith((".SH", ".SS")):
            self.add(".PP")
        self.add(escape(text))

    def text(self):
        return "\n".join(self._lines) + "\n"


def _head(option):
    names = ", ".join(map(bold, option.names)) or italic(option.positional)
    return f"{names} {italic(option.value)}" if option.names and option.value else names


def _details(option):
    sentences = [sentence(option.text)]
    if option.range:
        sentences.append(f"{option.range[0]} to {option.range[1]}.")
    if option.default:
        sentences.append(f"Default: {option.default}.")
    if option.required and option.names:
        sentences.append("Must be given.")
    if option.repeats and option.names and "repeated" not in option.text:
        sentences.append("May be repeated.")
    if option.needs:
        sentences.append(f"Needs {', '.join(option.needs)}.")
    if option.excludes:
        sentences.append(f"Not with {', '.join(option.excludes)}.")
    return " ".join(sentences)


def _synopsis(command):
    words = [bold(" ".join(command.path)), f"[{italic('OPTIONS')}]"]
    for option in command.options:
        if option.required and option.names:
            words.append(f"{bold(option.names[-1])} {italic(option.value)}")
    for option in command.options:
        if option.positional:
            shown = italic(option.positional) + (" ..." if option.repeats else "")
            words.append(shown if option.required else f"[{shown}]")
    if command.commands:
        words.append(italic("COMMAND"))
    return " ".join(words)


def command_page(command, date, version):
    page = Page(command.page, 1, date, version)
    page.section("NAME")
    page.add(f"{escape(command.page)} \\- {escape(short(command.text))}")
    page.section("SYNOPSIS")
    page.add(_synopsis(command))
    page.section("DESCRIPTION")
    page.add(escape(sentence(command.text)))
    if command.commands:
        page.section("COMMANDS")
        for below in command.commands:
            page.entry([reference(below.page, 1)], sentence(below.text))
    page.section("OPTIONS")
    for option in command.options:
        page.entry([_head(option)], _details(option))
    if len(command.path) == 1:
        page.section("EXIT STATUS")
        for status, text in EXIT_STATUS:
            page.entry([bold(status)], text)
    page.section("SEE ALSO")
    related = ["-".join(command.path[:-1])] if len(command.path) > 1 else []
    related += [below.page for below in command.commands]
    page.add(",\n".join([reference(name, 1) for name in related] + [reference(CONFIGURATION, 5)]))
    return page.text()


def _add_block(page, lines):
    """A comment that stands alone: prose, and behind an empty line perhaps an example."""
    prose, example = lines, []
    if "" in lines:
        prose, example = lines[: lines.index("")], lines[lines.index("") + 1 :]
    page.paragraph(" ".join(prose))
    if example:
        page.add(".PP", ".EX", *map(escape, example), ".EE")


def add_configuration(page, text):
    """A file of configs/: comments, and below each the table, or the keys, that it speaks of."""
    comment, keys = [], []

    def finish():
        nonlocal comment, keys
        if keys:
            page.entry([bold(key) for key in keys], " ".join(comment))
        elif comment:
            _add_block(page, comment)
        comment, keys = [], []

    for line in text.splitlines():
        if line.startswith("#"):
            if keys:
                finish()
            comment.append(line[2:])
        elif line.startswith("["):
            about, comment = comment, []
            page.add(f".SS {escape(line)}")
            if about:
                page.add(escape(" ".join(about)))
        elif line:
            keys.append(line)
        else:
            finish()
    finish()


def configuration_page(files, date, version):
    """`files`: (title, text) of each."""
    page = Page(CONFIGURATION, 5, date, version)
    page.section("NAME")
    page.add(f"{escape(CONFIGURATION)} \\- configuration of Farpage\\(aqs nodes and clients")
    page.section("DESCRIPTION")
    page.add("Files in TOML, which", f"{bold('--config')} names. A key is shown with its default.")
    page.add(f"{bold('--set')} {italic('TABLE.KEY=VALUE')} overrides one key. An unknown key is an error.")
    for title, text in files:
        page.section(title)
        add_configuration(page, text)
    page.section("SEE ALSO")
    page.add(reference("farpage", 1))
    return page.text()
