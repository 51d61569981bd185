#include "cli/lab/scale_bench.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <utility>

#include "base/stderr.h"
#include "cli/exit_code.h"
#include "cli/version.h"
#include "report/json.h"

namespace farpage {

int run_bench_scale(ScaleArguments arguments) {
  ScaleOptions& options = arguments.bench;
  if (auto valid = options.validate(); !valid) return report_error(valid.error(), kExitUsage);
  if (arguments.etcd.is_given()) {
    auto access = arguments.etcd.load();
    if (!access) return report_error(access.error(), kExitUsage);
    options.etcd = std::move(*access);
  }
  auto result = run_scale_bench(
      options, [](const char* part) { write_stderr(fmt::format("measuring {}\n", part)); });
  if (!result) return report_error(result.error());
  const ScaleReport report = {options, std::move(*result), version()};
  const auto written =
      write_json_and_table(arguments.json, scale_json(report), scale_table(report));
  return written ? kExitDone : report_error(written.error());
}

}  // namespace farpage
