#include <fmt/format.h>

#include <boost/json/object.hpp>

#include "lab/recovery/recovery_bench.h"

namespace farpage {
namespace {

double ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

boost::json::object span_json(const DeathResult::Span& span) {
  return {{"pages", span.pages},
          {"ready", span.ready},
          {"p99_ns", span.p99_ns},
          {"slowest_ns", span.slowest_ns}};
}

std::string span_row(const char* when, const DeathResult::Span& span) {
  return fmt::format("{:<26}{:>10}{:>10}{:>12.1f}{:>14.1f}\n", when, span.pages, span.ready,
                     static_cast<double>(span.p99_ns) / 1e3,
                     static_cast<double>(span.slowest_ns) / 1e3);
}

}  // namespace

boost::json::object recovery_json(const RecoveryReport& report) {
  const HedgingResult& hedging = report.hedging;
  const DeathResult& death = report.death;
  return {{"version", report.version},
          {"hedging", boost::json::object{{"fetches", hedging.fetches},
                                          {"unhedged_p999_ns", hedging.unhedged_p999_ns},
                                          {"hedged_p999_ns", hedging.hedged_p999_ns},
                                          {"hedges", hedging.hedges},
                                          {"hedges_won", hedging.hedges_won},
                                          {"extra_reads", hedging.extra_reads},
                                          {"wrong_bytes", hedging.wrong_bytes}}},
          {"death", boost::json::object{{"clients", death.clients},
                                        {"batch", death.batch},
                                        {"deadline_ns", death.deadline_ns},
                                        {"lease_ns", death.lease_ns},
                                        {"before", span_json(death.before)},
                                        {"meanwhile", span_json(death.meanwhile)},
                                        {"after", span_json(death.after)},
                                        {"late", death.late},
                                        {"wrong_bytes", death.wrong_bytes}}}};
}

std::string recovery_table(const RecoveryReport& report) {
  const HedgingResult& hedging = report.hedging;
  const DeathResult& death = report.death;
  return fmt::format(
             "one of three peers 20 x slower on 1% of its reads, virtual time\n"
             "p99.9 {:.1f} us unhedged, {:.1f} us hedged: {:.3f} x; {} hedges, {} won, {:.2f}% "
             "extra reads\n\n"
             "one of three nodes loses power, virtual time: {} clients, {} pages a fetch, deadline "
             "{:.1f} ms, lease {:.0f} ms\n{:<26}{:>10}{:>10}{:>12}{:>14}\n",
             static_cast<double>(hedging.unhedged_p999_ns) / 1e3,
             static_cast<double>(hedging.hedged_p999_ns) / 1e3,
             ratio(hedging.hedged_p999_ns, hedging.unhedged_p999_ns), hedging.hedges,
             hedging.hedges_won, 100 * hedging.extra_reads, death.clients, death.batch,
             static_cast<double>(death.deadline_ns) / 1e6,
             static_cast<double>(death.lease_ns) / 1e6, "", "pages", "ready", "p99, us",
             "slowest, us") +
         span_row("before", death.before) + span_row("for two leases after", death.meanwhile) +
         span_row("from then on", death.after) +
         fmt::format("p99 from then on: {:.2f} x; late verdicts: {}; wrong bytes: {}\n",
                     ratio(death.after.p99_ns, death.before.p99_ns), death.late,
                     death.wrong_bytes + hedging.wrong_bytes);
}

}  // namespace farpage
