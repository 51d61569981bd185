#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "bench/json.h"
#include "cli/status_report.h"
#include "cli/version.h"

namespace farpage {
namespace {

boost::json::object verdicts_json(const VerdictCounts& verdicts) {
  return {{"fetches", verdicts.fetches},
          {"ready", verdicts.ready},
          {"ready_bytes", verdicts.ready_bytes},
          {"recompute_by_reason",
           {{"miss", verdicts.miss},
            {"stale", verdicts.stale},
            {"corrupt", verdicts.corrupt},
            {"stalled", verdicts.stalled},
            {"unreachable", verdicts.unreachable}}}};
}

// Null where the node does not see what its clients read.
boost::json::value traffic_json(const StatusReply& status) {
  if (!status.sees_traffic) return nullptr;
  boost::json::array paths;
  for (const PathTraffic& path : status.traffic) {
    paths.push_back({{"path", path.path},
                     {"connections", path.connections},
                     {"reads", path.reads},
                     {"read_bytes", path.read_bytes},
                     {"writes", path.writes},
                     {"write_bytes", path.write_bytes},
                     {"refused", path.refused}});
  }
  return paths;
}

boost::json::object rates_json(const StatusReport& report) {
  const StatusReply& now = report.now;
  const StatusReply& before = *report.before;
  return {
      {"seconds", report.seconds()},
      {"puts", report.per_second(before.puts, now.puts)},
      {"put_bytes", report.per_second(before.put_bytes, now.put_bytes)},
      {"evictions", report.per_second(before.evictions, now.evictions)},
      {"removes", report.per_second(before.removes, now.removes)},
      {"fetches", report.per_second(before.verdicts.fetches, now.verdicts.fetches)},
      {"ready", report.per_second(before.verdicts.ready, now.verdicts.ready)},
      {"ready_bytes", report.per_second(before.verdicts.ready_bytes, now.verdicts.ready_bytes)}};
}

}  // namespace

boost::json::object status_json(const StatusReport& report) {
  const StatusReply& status = report.now;
  boost::json::object json = {
      {"version", version()},
      {"backend", status.backend},
      {"path", status.path},
      {"configuration", {{"page_bytes", status.page_bytes}, {"slots", status.slots}}},
      {"hardware", hardware_json()},
      {"epoch", status.epoch},
      {"incarnation", fmt::format("{:016x}", status.incarnation)},
      {"uptime_s", static_cast<double>(status.uptime_ns) * 1e-9},
      {"cpu_s", static_cast<double>(status.cpu_ns) * 1e-9},
      {"page_bytes", status.page_bytes},
      {"slots", status.slots},
      {"slots_live", status.slots_live},
      {"slots_free", status.slots_free},
      {"slots_cooling", status.slots_cooling},
      {"clients", status.clients},
      {"puts", status.puts},
      {"put_bytes", status.put_bytes},
      {"puts_refused", status.puts_refused},
      {"removes", status.removes},
      {"evictions", status.evictions},
      {"renewals", status.renewals},
      {"verdicts", verdicts_json(status.verdicts)},
      {"traffic", traffic_json(status)}};
  if (report.seconds() > 0) json["per_second"] = rates_json(report);
  return json;
}

}  // namespace farpage
