#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace farpage::processes {

// Where a program of this name is in $PATH or /usr/sbin; empty: nowhere.
std::string find_program(const std::string& name);

struct ChildOptions {
  std::string program;             // a path
  std::vector<std::string> words;  // the first is its name
  std::string log;                 // a file that what it prints is added to
  int network = -1;                // the namespace that it runs in; -1: its parent's
};

// A process that dies with the thread that started it, however that ends, and with this object.
class Child {
 public:
  static Result<Child> start(const ChildOptions& options);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();

  void signal(int number) const;
  // As waitpid() tells; nothing: it runs.
  std::optional<int> ended();
  // Waits for it.
  int wait();

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  void end();

  pid_t pid_ = -1;
  std::optional<int> status_;
};

// Waits for its end; its own words are the error.
Result<void> run_to_end(const ChildOptions& options);

// "killed by signal 9", "ended with 1".
std::string describe_end(int status);

}  // namespace farpage::processes
