"""Completion of command lines for bash, zsh and fish."""

import shlex

BASH = """\
# Completion of {program} for bash.

# Sets what may follow the command $1: its commands, its options, those that take a value, and those
# whose value is a file.
_{function}_words() {{
  case $1 in
{words}
  esac
}}

_{function}() {{
  local commands options valued files choices path=$1 word i
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  path={program}
  COMPREPLY=()
  _{function}_words "$path"
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${{COMP_WORDS[i]}}
    if [[ $word == -- ]]; then
      mapfile -t COMPREPLY < <(compgen -A command -A file -- "$current")
      return
    elif [[ " $valued " == *" $word "* ]]; then
      i=$((i + 1))
      [[ ${{COMP_WORDS[i]}} == = && $((i + 1)) -le $COMP_CWORD ]] && i=$((i + 1))
    elif [[ " $commands " == *" $word "* ]]; then
      path+=" $word"
      _{function}_words "$path"
    fi
  done
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = && COMP_CWORD -gt 2 ]]; then
    previous=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  if [[ " $valued " == *" $previous "* ]]; then
    case "$path $previous" in
{choices}
    esac
    if [[ -n $choices ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$current")
    elif [[ " $files " == *" $previous "* ]]; then
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
  elif [[ $current == -* || -z $commands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
  fi
}}
complete -F _{function} {program}
"""


def function_of(program):
    return "_".join(program.path).replace("-", "_")


def _names(options):
    return " ".join(name for option in options for name in option.names)


def bash(program):
    words, choices = [], []
    for command in program.every():
        path = " ".join(command.path)
        valued = [option for option in command.options if option.value]
        settings = {
            "commands": " ".join(below.path[-1] for below in command.commands),
            "options": _names(command.options),
            "valued": _names(valued),
            "files": _names(option for option in valued if option.takes_file),
        }
        words.append(f"    {shlex.quote(path)})")
        words += [f"      {name}={shlex.quote(value)}" for name, value in settings.items()]
        words.append("      ;;")
        for option in valued:
            if option.choices and option.names:
                patterns = " | ".join(shlex.quote(f"{path} {name}") for name in option.names)
                choices.append(f"      {patterns}) choices={shlex.quote(' '.join(option.choices))} ;;")
    choices.append("      *) choices= ;;")
    return BASH.format(
        program=program.page, function=function_of(program), words="\n".join(words), choices="\n".join(choices)
    )


def _zsh_text(text):
    for special in "\\[]:":
        text = text.replace(special, "\\" + special)
    return text


def _zsh_value(option):
    if option.choices:
        return f":{option.value}:({' '.join(option.choices)})"
    action = "_files" if option.takes_file else " "
    return f":{_zsh_text(option.value)}:{action}"


def _zsh_option(option):
    if option.positional:
        return f"{'*' if option.repeats else ''}:{_zsh_text(option.positional)}:_default"
    repeats = "*" if option.repeats else ""
    equals = "=" if option.value else ""
    text = f"[{_zsh_text(option.text)}]"
    value = _zsh_value(option) if option.value else ""
    return [f"{repeats}{name}{equals if name.startswith('--') else ''}{text}{value}" for name in option.names]


def _zsh_function(command):
    arguments = []
    for option in command.options:
        spec = _zsh_option(option)
        arguments += [spec] if isinstance(spec, str) else spec
    lines = [f"_{function_of(command)}() {{"]
    if command.commands:
        lines.append("  local curcontext=$curcontext state line")
        arguments += ["1: :->command", "*:: :->rest"]
    joined = " \\\n".join(f"    {shlex.quote(argument)}" for argument in arguments)
    lines.append(f"  _arguments {'-C ' if command.commands else ''}\\\n{joined}")
    if command.commands:
        listed = " ".join(shlex.quote(f"{below.path[-1]}:{below.text}") for below in command.commands)
        lines += ["  case $state in", f"    command) local -a commands=({listed})"]
        lines += ["      _describe command commands ;;", "    rest) case $line[1] in"]
        lines += [f"        {below.path[-1]}) _{function_of(below)} ;;" for below in command.commands]
        lines += ["      esac ;;", "  esac"]
    return "\n".join([*lines, "}", ""])


def zsh(program):
    functions = "\n".join(_zsh_function(command) for command in program.every())
    return f"#compdef {program.page}\n\n{functions}\n_{function_of(program)} \"$@\"\n"


def _fish_place(command, root):
    """The condition under which the words of this command are offered."""
    seen = [f"__fish_seen_subcommand_from {word}" for word in command.path[1:]]
    if command.commands:
        below = " ".join(below.path[-1] for below in command.commands)
        seen.append(f"not __fish_seen_subcommand_from {below}")
    return "; and ".join(seen) if command is not root else seen[-1]


def fish(program):
    lines = [f"# Completion of {program.page} for fish.", ""]
    for command in program.every():
        place = f"complete -c {program.page} -n {shlex.quote(_fish_place(command, program))}"
        for below in command.commands:
            lines.append(f"{place} -f -a {below.path[-1]} -d {_fish_quote(below.text)}")
        for option in command.options:
            flags = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
            if not flags:
                continue
            if option.choices:
                flags.append(f"-x -a {_fish_quote(' '.join(option.choices))}")
            elif option.value:
                flags.append("-r -F" if option.takes_file else "-x")
            lines.append(f"{place} {' '.join(flags)} -d {_fish_quote(option.text)}")
    return "\n".join(lines) + "\n"


def _fish_quote(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
