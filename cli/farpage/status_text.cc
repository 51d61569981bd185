#include <fmt/args.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/units.h"
#include "cli/farpage/status_report.h"
#include "control/status/status_table.h"
#include "integrity/facts.h"

namespace farpage {
namespace {

// How many bytes of the character at the text's begin act on a terminal, or on the direction of the
// text around them; 0: it is plain.
size_t control_bytes(std::string_view text) {
  const auto byte = [text](size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
  };
  if (byte(0) < 0x20 || byte(0) == 0x7F) return 1;
  if (byte(0) == 0xC2 && byte(1) >= 0x80 && byte(1) <= 0x9F) return 2;  // U+0080 to U+009F
  if (byte(0) != 0xE2) return 0;
  // U+200E, U+200F, U+202A to U+202E, and U+2066 to U+2069.
  const bool is_mark = byte(1) == 0x80 && (byte(2) == 0x8E || byte(2) == 0x8F);
  const bool is_embedding = byte(1) == 0x80 && byte(2) >= 0xAA && byte(2) <= 0xAE;
  const bool is_isolate = byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;
  return is_mark || is_embedding || is_isolate ? 3 : 0;
}

// A node's word must not move a terminal's cursor.
std::string printable(const std::string& text) {
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = control_bytes(std::string_view(text).substr(at));
    plain += bytes > 0 ? '?' : text[at];
    at += std::max<size_t>(bytes, 1);
  }
  return plain;
}

// No more than so many bytes, and no part of a character of UTF-8.
std::string cut(std::string text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return text.substr(0, most) + "…";
}

// As cut(); of a path the end says more than the beginning.
std::string cut_value(std::string value, size_t most) {
  if (!value.starts_with('/') || value.size() <= most) return cut(std::move(value), most);
  size_t from = value.size() - most;
  while (from < value.size() && (static_cast<unsigned char>(value[from]) & 0xC0) == 0x80) ++from;
  return "…" + value.substr(from);
}

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

class Rows {
 public:
  explicit Rows(const StatusReport& report) : report_(report) {}

  void add(std::string_view name, std::string_view value) {
    text_ += fmt::format("{:<24} {}\n", name, value);
  }
  // ", 12.0/s", if there was an earlier look.
  std::string rate(uint64_t was, uint64_t is) const {
    return report_.seconds() > 0 ? fmt::format(", {:.1f}/s", report_.per_second(was, is)) : "";
  }
  std::string byte_rate(uint64_t was, uint64_t is) const {
    if (report_.seconds() == 0) return "";
    return fmt::format(", {}/s", format_bytes(static_cast<uint64_t>(report_.per_second(was, is))));
  }
  // Those that the table has for the record.
  template <typename Record>
  void add_figures(const Record& now, const Record& before) {
    fmt::dynamic_format_arg_store<fmt::format_context> words;
    for (const Figure<Record>& figure : figures(now)) {
      const uint64_t was = before.*figure.member;
      const uint64_t is = now.*figure.member;
      const bool is_bytes = unit_of(figure.name) == FigureUnit::kBytes;
      const std::string rate_name = figure.name + std::string("_rate");
      words.push_back(fmt::arg(figure.name, is_bytes ? format_bytes(is) : std::to_string(is)));
      words.push_back(fmt::arg(rate_name.c_str(), is_bytes ? byte_rate(was, is) : rate(was, is)));
    }
    for (const Figure<Record>& figure : figures(now)) {
      if (figure.row != nullptr) add(figure.row, fmt::vformat(figure.text, words));
    }
  }
  std::string take() { return std::move(text_); }

 private:
  const StatusReport& report_;
  std::string text_;
};

void add_node(const StatusReply& now, Rows& rows) {
  const double up_s = static_cast<double>(now.uptime_ns) * 1e-9;
  const double cpu_s = static_cast<double>(now.cpu_ns) * 1e-9;
  rows.add("path", printable(fmt::format("{}: {}", now.backend, now.path)));
  rows.add("epoch", std::to_string(now.epoch));
  rows.add("incarnation", fmt::format("{:016x}", now.incarnation));
  rows.add("up", fmt::format("{:.1f} s", up_s));
  if (now.cpu_ns > 0) rows.add("CPU time", fmt::format("{:.3f} s", cpu_s));
}

void add_pool(const StatusReply& now, Rows& rows) {
  rows.add("slots", fmt::format("{} of {}, {} in all", now.slots, format_bytes(now.page_bytes),
                                format_bytes(now.slots * now.page_bytes)));
  const auto state = [&](const char* name, uint64_t slots) {
    rows.add(name, fmt::format("{} ({:.1f}%), {}", slots, share(slots, now.slots),
                               format_bytes(slots * now.page_bytes)));
  };
  state("  live", now.slots_live);
  state("  free", now.slots_free);
  state("  cooling", now.slots_cooling);
}

void add_budget(const ClientBudgetStatus& now, std::string_view name, Rows& rows) {
  rows.add(name,
           fmt::format("{} of {} ({:.1f}%), {} refused", format_bytes(now.granted_bytes),
                       format_bytes(now.bytes), share(now.granted_bytes, now.bytes), now.refused));
}

bool is_reason(const Figure<VerdictCounts>& figure) {
  return !metric_of(figure.metric).label.name.empty();
}

uint64_t pages_of(const VerdictCounts& verdicts) {
  uint64_t pages = verdicts.ready;
  for (const auto& figure : figures(verdicts)) {
    if (is_reason(figure)) pages += verdicts.*figure.member;
  }
  return pages;
}

void add_verdicts(const VerdictCounts& now, const VerdictCounts& before, Rows& rows) {
  const uint64_t pages = pages_of(now);
  rows.add("verdicts", fmt::format("{} pages in {} fetches{}, as the clients tell", pages,
                                   now.fetches, rows.rate(pages_of(before), pages)));
  rows.add("  ready", fmt::format("{} ({:.2f}%), {}{}", now.ready, share(now.ready, pages),
                                  format_bytes(now.ready_bytes),
                                  rows.byte_rate(before.ready_bytes, now.ready_bytes)));
  for (const auto& figure : figures(now)) {
    if (!is_reason(figure)) continue;
    const uint64_t count = now.*figure.member;
    rows.add(fmt::format("  recompute: {}", figure.name),
             fmt::format("{} ({:.2f}%){}", count, share(count, pages),
                         rows.rate(before.*figure.member, count)));
  }
}

void add_traffic(const StatusReply& now, const StatusReply& before, Rows& rows) {
  if (!now.sees_traffic) {
    rows.add("traffic", fmt::format("read one-sided: the node does not see them; clients report {}",
                                    format_bytes(now.verdicts.ready_bytes)));
    return;
  }
  rows.add("traffic",
           fmt::format("{} {}", now.traffic.size(), now.traffic.size() == 1 ? "path" : "paths"));
  for (const PathTraffic& path : now.traffic) {
    const auto found = std::ranges::find(before.traffic, path.path, &PathTraffic::path);
    const PathTraffic was = found == before.traffic.end() ? PathTraffic{} : *found;
    rows.add("  " + printable(path.path),
             fmt::format("{} connections, {} refused", path.connections, path.refused));
    rows.add_figures(path, was);
  }
}

// "1.5 MiB, 2.0 KiB/s, 300 packets, 1.0/s", of what is counted.
std::string moved(std::optional<uint64_t> bytes, std::optional<uint64_t> packets,
                  std::optional<uint64_t> bytes_before, std::optional<uint64_t> packets_before,
                  const Rows& rows) {
  std::string text;
  if (bytes) {
    text = format_bytes(*bytes) + rows.byte_rate(bytes_before.value_or(*bytes), *bytes);
  }
  if (packets) {
    text += fmt::format("{}{} packets{}", bytes ? ", " : "", *packets,
                        rows.rate(packets_before.value_or(*packets), *packets));
  }
  return text.empty() ? "the device does not count it" : text;
}

// Nothing of a node that serves alone.
void add_fleet(const FleetStatus& now, Rows& rows) {
  if (now.node == 0) return;
  const auto reached = std::ranges::count(now.others, true, &MemberStatus::reached);
  rows.add("fleet", fmt::format("node {:016x}, {} replicas, {} of {} others reached", now.node,
                                now.replicas, reached, now.others.size()));
  for (const MemberStatus& member : now.others) {
    if (!member.reached) rows.add("  not reached", fmt::format("{:016x}", member.node));
  }
  rows.add_figures(now, now);
}

// Nothing of a node without tenants.
void add_tenants(const StatusReply& now, const StatusReply& before, Rows& rows) {
  for (const TenantStatus& tenant : now.tenants) {
    const auto found = std::ranges::find(before.tenants, tenant.name, &TenantStatus::name);
    const TenantStatus was = found == before.tenants.end() ? TenantStatus{} : *found;
    rows.add("tenant " + printable(tenant.name),
             fmt::format("{} of {} ({:.1f}%), {} clients", format_bytes(tenant.held_bytes),
                         format_bytes(tenant.quota_bytes),
                         share(tenant.held_bytes, tenant.quota_bytes), tenant.clients));
    rows.add_figures(tenant, was);
    add_budget(tenant.budget, "  granted to clients", rows);
  }
}

// "engine=vllm, model=Qwen/Qwen3-8B"; long values and long lists are cut, so first come the facts
// that an operator looks for.
std::string facts_text(const std::string& lines) {
  constexpr size_t kMostOfOne = 60;
  constexpr size_t kMostOfAll = 400;
  constexpr std::array<std::string_view, 4> kFirst = {"engine", "model", "version", "dtype"};
  auto facts = parse_facts(lines);
  if (!facts || facts->empty()) return "no client has told its facts";
  std::ranges::stable_sort(*facts, {},
                           [&](const Fact& fact) { return std::ranges::find(kFirst, fact.name); });
  std::string text;
  for (const Fact& fact : *facts) {
    if (fact.value.empty()) continue;
    const std::string name = cut(std::string(fact.name), kMostOfOne);
    const std::string value = cut_value(std::string(fact.value), kMostOfOne);
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  }
  return printable(cut(std::move(text), kMostOfAll));
}

// Nothing where no client has named a namespace.
void add_name_spaces(const StatusReply& now, Rows& rows) {
  for (const NameSpaceStatus& one : now.name_spaces) {
    rows.add("namespace", fmt::format("{}: {} pages, {}", printable(one.name_space), one.pages,
                                      format_bytes(one.held_bytes)));
    rows.add("", facts_text(one.facts));
  }
}

void add_ports(const StatusReply& now, const StatusReply& before, Rows& rows) {
  for (const PortTraffic& port : now.ports) {
    const auto found = std::ranges::find(before.ports, port.port, &PortTraffic::port);
    const PortTraffic was = found == before.ports.end() ? PortTraffic{} : *found;
    const std::string link =
        port.link_bits_per_s == 0
            ? "a link of unknown rate"
            : fmt::format("{:g} Gbit/s", static_cast<double>(port.link_bits_per_s) * 1e-9);
    rows.add(
        "  " + printable(port.port),
        fmt::format("{}, {} connections, {} refused, {} immediates{}", link, port.connections,
                    port.refused, port.immediates, rows.rate(was.immediates, port.immediates)));
    rows.add("    whole port: sent", moved(port.counts.sent_bytes, port.counts.sent_packets,
                                           was.counts.sent_bytes, was.counts.sent_packets, rows));
    rows.add("    received", moved(port.counts.received_bytes, port.counts.received_packets,
                                   was.counts.received_bytes, was.counts.received_packets, rows));
  }
}

}  // namespace

double StatusReport::seconds() const {
  if (before == nullptr || before->incarnation != now.incarnation ||
      before->uptime_ns >= now.uptime_ns) {
    return 0;
  }
  return static_cast<double>(now.uptime_ns - before->uptime_ns) * 1e-9;
}

double StatusReport::per_second(uint64_t was, uint64_t is) const {
  return is > was && seconds() > 0 ? static_cast<double>(is - was) / seconds() : 0;
}

std::string status_text(const StatusReport& report) {
  const StatusReply nothing;
  const StatusReply& before = report.before == nullptr ? nothing : *report.before;
  Rows rows(report);
  add_node(report.now, rows);
  add_pool(report.now, rows);
  rows.add_figures(report.now, before);
  add_budget(report.now.budget, "granted to clients", rows);
  rows.add_figures(report.now.pushes, before.pushes);
  rows.add_figures(report.now.scrubs, before.scrubs);
  add_verdicts(report.now.verdicts, before.verdicts, rows);
  add_traffic(report.now, before, rows);
  add_ports(report.now, before, rows);
  add_fleet(report.now.fleet, rows);
  add_tenants(report.now, before, rows);
  add_name_spaces(report.now, rows);
  return rows.take();
}

}  // namespace farpage
