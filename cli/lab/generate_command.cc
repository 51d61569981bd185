#include <fmt/format.h>
#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/exit_code.h"
#include "cli/lab/commands.h"
#include "cli/options.h"
#include "lab/decode/decode_generator.h"
#include "lab/decode/decode_options.h"
#include "lab/decode/decode_truth.h"
#include "lab/paging/access_writer.h"
#include "report/json.h"
#include "report/progress.h"

namespace farpage {
namespace {

using decode::DecodeOptions;

struct GenerateArguments {
  std::string parameters;
  std::string output;
  std::string truth;
  uint64_t tokens = 0;
  uint64_t seed = 0;
  const CLI::Option* tokens_option = nullptr;
  const CLI::Option* seed_option = nullptr;
  std::vector<std::string> overrides;
  bool list = false;  // tells the parameters, and makes nothing
};

Result<void> set_from(DecodeOptions& options, std::string_view key, const toml::node& node) {
  if (const auto* integer = node.as_integer()) {
    return set(options, key, static_cast<double>(integer->get()));
  }
  if (const auto* number = node.as_floating_point()) return set(options, key, number->get());
  return fail(Code::kInvalid, fmt::format("{} is not a number", key));
}

// Parameters that a file leaves out are as in the set "reasoning".
Result<DecodeOptions> read_file(const std::string& path) {
  DecodeOptions options;
  try {
    const toml::table table = toml::parse_file(path);
    for (const auto& [key, node] : table) {
      if (auto done = set_from(options, key.str(), node); !done) {
        return fail(Code::kInvalid,
                    fmt::format("{}:{}: {}", path, node.source().begin.line, done.error().message));
      }
    }
  } catch (const toml::parse_error& error) {
    const toml::source_position& at = error.source().begin;
    return fail(Code::kInvalid,
                fmt::format("{}:{}:{}: {}", path, at.line, at.column, error.description()));
  }
  if (auto valid = options.validate(); !valid) {
    return fail(Code::kInvalid, fmt::format("{}: {}", path, valid.error().message));
  }
  return options;
}

Result<DecodeOptions> read_options(const GenerateArguments& arguments) {
  auto options = arguments.parameters.ends_with(".toml") ? read_file(arguments.parameters)
                                                         : decode::preset(arguments.parameters);
  if (!options) return options;
  for (const std::string& text : arguments.overrides) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return fail(Code::kInvalid, fmt::format("--set {}: write it as key=value", text));
    }
    const auto done = set(*options, std::string_view(text).substr(0, equals),
                          std::string_view(text).substr(equals + 1));
    if (!done) return fail(Code::kInvalid, fmt::format("--set {}: {}", text, done.error().message));
  }
  const auto set_count = [&](const CLI::Option* option, const char* key, uint64_t count) {
    return option->empty() ? Result<void>() : set(*options, key, static_cast<double>(count));
  };
  const auto valid =
      set_count(arguments.tokens_option, "tokens", arguments.tokens)
          .and_then([&] { return set_count(arguments.seed_option, "seed", arguments.seed); })
          .and_then([&] { return options->validate(); });
  if (!valid) return tl::unexpected(valid.error());
  return options;
}

Result<void> write_trace(const std::string& path, const DecodeOptions& options,
                         decode::DecodeGenerator& generator) {
  paging::AccessFileHeader header;
  header.name = fmt::format("synthetic decode, seed {}", options.seed);
  header.synthetic = true;
  header.layout = {static_cast<uint32_t>(options.layers), static_cast<uint32_t>(options.heads)};
  header.columns = {prefetch::Signal::kMass, prefetch::Signal::kEntropy, prefetch::Signal::kMargin,
                    prefetch::Signal::kMark};
  auto writer = paging::AccessWriter::create(path, header);
  if (!writer) return tl::unexpected(writer.error());
  const uint64_t steps = generator.script().steps();
  Progress progress("generate", "steps", steps);
  std::vector<prefetch::Access> accesses;
  for (uint64_t step = 0; step < steps; ++step) {
    accesses.clear();
    generator.step(accesses);
    for (const prefetch::Access& access : accesses) {
      if (auto added = (*writer)->add(access); !added) return added;
    }
    progress.update(step + 1);
  }
  return (*writer)->finish();
}

Result<void> generate(const GenerateArguments& arguments, const DecodeOptions& options) {
  // It is written at the end, and whether it can be is known before the work.
  if (auto begun = write_text(arguments.truth, decode::kTruthHeader); !begun) return begun;
  decode::DecodeGenerator generator(options);
  if (auto done = write_trace(arguments.output, options, generator); !done) return done;
  return write_text(arguments.truth, truth_csv(generator));
}

std::string parameters_text() {
  std::string text = "Parameters, with their values in the set \"reasoning\":\n";
  DecodeOptions options;
  for (const decode::DecodeField& field : fields(options)) {
    text += fmt::format("  {}={}: {}\n", field.key, field.value(), field.meaning);
  }
  return text;
}

int run_generate(const GenerateArguments& arguments) {
  if (arguments.list) {
    const auto written = write_text("-", parameters_text());
    return written ? kExitDone : report_error(written.error());
  }
  if (arguments.parameters.empty() || arguments.output.empty() || arguments.truth.empty()) {
    return report_error({Code::kInvalid,
                         "name a parameter set (reasoning, normal or a file) and the files for the "
                         "trace and its truth: --output FILE --truth FILE"},
                        kExitUsage);
  }
  const auto options = read_options(arguments);
  if (!options) return report_error(options.error(), kExitUsage);
  const auto absolute = [](const std::string& path) {
    std::error_code error;  // what cannot be looked at, cannot be written, and says so then
    const auto whole = std::filesystem::absolute(path, error);
    const auto canonical = std::filesystem::weakly_canonical(whole, error);
    return error ? whole : canonical;
  };
  if (arguments.truth == "-" || absolute(arguments.truth) == absolute(arguments.output)) {
    return report_error(
        {Code::kInvalid,
         "--truth needs a file of its own: neither standard output nor that of --output"},
        kExitUsage);
  }
  const auto done = generate(arguments, *options);
  return done ? kExitDone : report_error(done.error());
}

}  // namespace

void add_generate_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "generate", "Generates the access trace of a synthetic decoder with sparse attention");
  auto arguments = std::make_shared<GenerateArguments>();
  command
      ->add_option(
          "parameters", arguments->parameters,
          "A parameter set, reasoning or normal, or a file with one; --list shows what they "
          "have")
      ->type_name("reasoning|normal|FILE.toml");
  command->add_option("--output", arguments->output, "The trace (docs/formats/access-trace.md)")
      ->type_name("FILE");
  command
      ->add_option("--truth", arguments->truth,
                   "The truth about the pages, which no policy sees (docs/formats/decode-truth.md)")
      ->type_name("FILE");
  arguments->tokens_option =
      command->add_option("--tokens", arguments->tokens, "As --set tokens=")->check(count_text());
  arguments->seed_option =
      command->add_option("--seed", arguments->seed, "As --set seed=")->check(count_text());
  command->add_option("--set", arguments->overrides, "Overrides one parameter")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->expected(1);
  command->add_flag("--list", arguments->list, "Lists the parameters");
  command->callback([arguments, &exit_code] { exit_code = run_generate(*arguments); });
}

}  // namespace farpage
