#include "cli/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <set>
#include <sstream>
#include <system_error>

#include "base/config/suggestion.h"
#include "base/stderr.h"
#include "cli/exit_code.h"
#include "cli/standard_streams.h"
#include "cli/version.h"
#include "net/runtime/thrown.h"
#include "report/json.h"

namespace farpage {
namespace {

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The word that this command does not know, and which one it may stand for. Empty: there is none,
// or the command has no commands of its own.
std::string unknown_word(const CLI::App& command, const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const CLI::App* below : command.get_subcommands({})) names.push_back(below->get_name());
  const bool is_command = !words.empty() && !words.front().starts_with('-');
  if (is_command && !names.empty()) {
    return fmt::format("unknown command '{}'{}", words.front(), suggestion(words.front(), names));
  }
  for (const std::string& word : words) {
    if (!word.starts_with('-')) continue;
    const std::string name = word.substr(0, word.find('='));
    return fmt::format("unknown option '{}'{}", name, suggestion(name, option_names(command)));
  }
  return "";
}

// The error, and where to read on.
std::string usage_error(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* used = app;
  while (!used->get_subcommands().empty()) used = used->get_subcommands().front();
  std::string name = used->get_name();
  for (const CLI::App* parent = used->get_parent(); parent != nullptr;
       parent = parent->get_parent()) {
    name.insert(0, parent->get_name() + " ");
  }
  const std::string unknown = unknown_word(*used, app->remaining(true));
  return fmt::format("{}: {}\nTry '{} --help'.\n", app->get_name(),
                     unknown.empty() ? error.what() : unknown, name);
}

// Help and version are results, and go to standard output.
int end_parsing(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream asked;
  std::ostringstream wrong;
  const bool is_done = app.exit(error, asked, wrong) == 0;
  write_stderr(wrong.str());
  if (!is_done) return kExitUsage;
  const auto written = write_text("-", asked.str());
  return written ? kExitDone : report_error(written.error());
}

// CLI11 orders them by where they lie in memory.
boost::json::array names_of(const std::set<CLI::Option*>& options) {
  std::set<std::string> names;
  for (const CLI::Option* option : options) names.insert(option->get_name());
  boost::json::array array;
  for (const std::string& name : names) array.emplace_back(name);
  return array;
}

boost::json::object describe(const CLI::Option& option) {
  boost::json::array names;
  for (const std::string& name : option.get_snames()) names.emplace_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.emplace_back("--" + name);
  const bool takes_value = option.get_type_size() != 0;
  const bool repeats = option.get_expected_max() > 1 ||
                       option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  return {{"names", names},
          {"positional", option.get_positional() ? option.get_name(true, false) : ""},
          {"value", takes_value ? option.get_type_name() : ""},
          {"default", takes_value ? option.get_default_str() : ""},
          {"required", option.get_required()},
          {"repeats", takes_value && repeats},
          {"needs", names_of(option.get_needs())},
          {"excludes", names_of(option.get_excludes())},
          {"text", option.get_description()}};
}

// What packaging/ makes manual pages and shell completion from.
boost::json::object describe(const CLI::App& command) {
  boost::json::array options;
  for (const CLI::Option* option : command.get_options()) {
    const bool is_hidden = option->get_group().empty();
    if (!is_hidden) options.push_back(describe(*option));
  }
  boost::json::array commands;
  for (const CLI::App* below : command.get_subcommands({})) commands.push_back(describe(*below));
  return {{"name", command.get_name()},
          {"text", command.get_description()},
          {"options", options},
          {"commands", commands}};
}

}  // namespace

int run_program(const std::string& name, const std::string& description,
                const std::function<void(CLI::App&, int&)>& add_commands, int argc, char** argv) {
  make_streams_safe();
  int exit_code = kExitDone;
  CLI::App app(description, name);
  app.set_version_flag("--version", fmt::format("{} {}", name, version()));
  const auto print_description = [&app] {
    throw CLI::CallForVersion(format_json(describe(app)), kExitDone);
  };
  app.add_flag_callback("--describe", print_description)->group("");  // not in the help
  app.require_subcommand(1);
  app.failure_message(usage_error);
  add_commands(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return end_parsing(app, error);
  } catch (const std::system_error& thrown) {  // there is no thread or no descriptor to be had
    return report_error(fail_thrown(thrown).value());
  }
  return exit_code;
}

}  // namespace farpage
