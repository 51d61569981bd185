#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <memory>
#include <thread>

#include "base/check.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "cli/backend.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/signals.h"
#include "control/unix_socket.h"
#include "node/node.h"

namespace farpage {
namespace {

struct NodeArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string listen;
  std::string state;
  uint64_t pool_bytes = 0;
  uint64_t page_bytes = 0;
  int ready_fd = -1;
};

Result<NodeOptions> load_options(const CLI::App& app, const NodeArguments& arguments) {
  NodeOptions options;
  Result<Config> config = Config::load(arguments.config, arguments.overrides);
  if (!config) return tl::unexpected(config.error());
  if (auto read = config->read("node", fields(options)); !read) return tl::unexpected(read.error());
  if (auto finished = config->finish(); !finished) return tl::unexpected(finished.error());
  if (app.count("--listen") > 0) options.listen = arguments.listen;
  if (app.count("--state") > 0) options.state = arguments.state;
  if (app.count("--pool-bytes") > 0) options.pool_bytes = arguments.pool_bytes;
  if (app.count("--page-bytes") > 0) options.page_bytes = arguments.page_bytes;
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  return options;
}

// To whoever started this node and waits for it, or else to standard error.
void announce(const UniqueFd& ready, const std::string& text) {
  if (!ready.valid()) {
    fmt::print(stderr, "farpage: {}", text);
  } else if (::write(ready.get(), text.data(), text.size()) < 0) {
    log_warning("nobody waits for this node to be ready");
  }
}

int announce_error(const UniqueFd& ready, const Error& error, int exit_code) {
  announce(ready, error.message + "\n");
  return exit_code;
}

// Taking the memory can last; until that is done there is nothing to clean up, and Ctrl-C need not
// wait.
class ExitWhileStarting {
 public:
  explicit ExitWhileStarting(const Interrupts& interrupts)
      : thread_([this, &interrupts] {
          std::array<pollfd, 2> waits = {pollfd{interrupts.fd(), POLLIN, 0},
                                         pollfd{end_[0], POLLIN, 0}};
          while (::poll(waits.data(), waits.size(), -1) < 0) {
          }
          if (waits[0].revents == 0) return;
          fmt::print(stderr, "farpage: interrupted\n");
          ::_exit(kExitFailed);
        }) {}

  ~ExitWhileStarting() {
    ::close(end_[1]);
    thread_.join();
    ::close(end_[0]);
  }

 private:
  static std::array<int, 2> make_pipe() {
    std::array<int, 2> ends = {-1, -1};
    FARPAGE_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0);
    return ends;
  }

  std::array<int, 2> end_ = make_pipe();
  std::thread thread_;
};

int run_node(const NodeOptions& options, UniqueFd ready) {
  const Interrupts interrupts;
  auto fabric = make_backend(kDefaultBackend);
  if (!fabric) return announce_error(ready, fabric.error(), kExitUsage);
  AsioRuntime runtime;
  Result<std::unique_ptr<ControlService>> node;
  {
    const ExitWhileStarting exit_while_starting(interrupts);
    runtime.run([&] { node = make_memory_node(options, runtime, **fabric); });
  }
  if (!node) return announce_error(ready, node.error(), kExitFailed);
  int exit_code = kExitDone;
  if (auto server = listen_unix(runtime, options.listen, **node); server) {
    const std::string path((*fabric)->capabilities().path);
    announce(ready, ready.valid()
                        ? "ready\n"
                        : fmt::format("serving {} of pages of {} on {} ({})\n",
                                      format_bytes(options.pool_bytes),
                                      format_bytes(options.page_bytes), options.listen, path));
    ready.reset();
    pollfd stop = {interrupts.fd(), POLLIN, 0};
    while (!interrupts.interrupted()) ::poll(&stop, 1, -1);
  } else {
    exit_code = announce_error(ready, server.error(), kExitFailed);
  }
  runtime.run([&] { node->reset(); });
  return exit_code;
}

}  // namespace

void add_node_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("node", "Runs a memory node until SIGINT or SIGTERM");
  auto arguments = std::make_shared<NodeArguments>();
  command->add_option("--config", arguments->config, "TOML file with a table [node]")
      ->type_name("FILE");
  command->add_option("--set", arguments->overrides, "Overrides one key of it: node.KEY=VALUE")
      ->type_name("TABLE.KEY=VALUE")
      ->take_all()
      ->expected(1);
  command->add_option("--listen", arguments->listen, "The node's Unix socket")->type_name("PATH");
  command
      ->add_option("--state", arguments->state, "File of the node's epoch, kept between its runs")
      ->type_name("FILE");
  add_size(*command, "--pool-bytes", arguments->pool_bytes, "Memory for pages");
  add_size(*command, "--page-bytes", arguments->page_bytes, "The longest page");
  command->add_option("--ready-fd", arguments->ready_fd,
                      "Descriptor on which to write \"ready\", or what went wrong");
  command->callback([command, arguments, &exit_code] {
    UniqueFd ready(arguments->ready_fd);
    if (ready.valid()) ::fcntl(ready.get(), F_SETFD, FD_CLOEXEC);
    const Result<NodeOptions> options = load_options(*command, *arguments);
    exit_code = options ? run_node(*options, std::move(ready))
                        : announce_error(ready, options.error(), kExitUsage);
  });
}

}  // namespace farpage
