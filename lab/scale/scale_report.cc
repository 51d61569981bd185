#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "lab/scale/scale_bench.h"
#include "report/json.h"

namespace farpage {
namespace {

namespace json = boost::json;

double ms(uint64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

json::object evenness_json(const Evenness& even) {
  return {{"mean_keys", even.mean},
          {"largest", even.largest},
          {"smallest", even.smallest},
          {"deviation", even.deviation},
          {"deviation_of_chance", even.chance},
          {"largest_at_most", even.largest_at_most}};
}

json::object news_json(const EpochNews& news) {
  return {{"clients", news.clients}, {"median_ns", news.median_ns},
          {"last_ns", news.last_ns}, {"reads_before", news.reads_before},
          {"reads", news.reads},     {"node_reads_before", news.node_reads_before},
          {"served", news.served}};
}

json::object fetch_json(const EveryNode::Fetch& fetch) {
  return {{"ready", fetch.ready},
          {"wrong", fetch.wrong},
          {"late_ns", fetch.late_ns},
          {"last_ns", fetch.last_ns},
          {"cpu_ns", fetch.cpu_ns}};
}

json::object every_node_json(const EveryNode& every) {
  return {{"nodes", every.nodes},
          {"pages", every.pages},
          {"of_silent", every.of_silent},
          {"few_heap_bytes", every.few_heap_bytes},
          {"every_heap_bytes", every.every_heap_bytes},
          {"few", fetch_json(every.few)},
          {"cold", fetch_json(every.cold)},
          {"warm", fetch_json(every.warm)},
          {"silent", fetch_json(every.silent)}};
}

json::object crowd_json(const CrowdCost& crowd) {
  return {{"clients", crowd.clients},   {"heap_bytes_per_client", crowd.heap_bytes_per_client},
          {"hello_ns", crowd.hello_ns}, {"renewal_ns", crowd.renewal_ns},
          {"put_ns", crowd.put_ns},     {"status_ns", crowd.status_ns}};
}

json::object sessions_json(const Sessions& sessions) {
  return {{"nodes", sessions.nodes},
          {"clients", sessions.clients},
          {"heap_bytes_per_client", sessions.heap_bytes_per_client},
          {"renewals_per_node_and_s", sessions.renewals_per_node_and_s},
          {"busiest_node", sessions.busiest_node},
          {"idlest_node", sessions.idlest_node}};
}

json::object cost_json(const NodeCost& cost) {
  return {{"nodes", cost.nodes},
          {"lookup_ns", cost.lookup_ns},
          {"pages", cost.pages},
          {"enter_empty_ns", cost.enter_empty_ns},
          {"enter_ns", cost.enter_ns},
          {"enter_ns_per_page", cost.enter_ns_per_page()},
          {"holdings_pages", cost.holdings.pages},
          {"holdings_told", cost.holdings.told},
          {"holdings_told_whole", cost.holdings.told_whole},
          {"holdings_walk_ns_per_page", cost.holdings.walk_ns_per_page()},
          {"holdings_walk_whole_ns_per_page", cost.holdings.walk_whole_ns_per_page()},
          {"holdings_tell_ns_per_page", cost.holdings.tell_ns_per_page()},
          {"holdings_ns_per_empty_answer", cost.holdings.ns_per_answer()},
          {"client_heap_bytes", cost.client_heap_bytes}};
}

json::object reads_json(const RegisterReads& reads) {
  return {{"reads", reads.reads}, {"per_s", reads.per_s}, {"client_cpu_ns", reads.client_cpu_ns}};
}

json::object etcd_json(const RegisterCost& cost) {
  return {{"nodes", cost.nodes},
          {"readers", cost.readers},
          {"whole", reads_json(cost.whole)},
          {"changed", reads_json(cost.changed)},
          {"unchanged", reads_json(cost.unchanged)}};
}

json::object repair_json(const ScaleOutlook::Repair& repair) {
  return {{"lost", repair.lost},
          {"bytes", repair.bytes},
          {"pages_gone", repair.pages_gone},
          {"mean_bytes", repair.mean_bytes},
          {"largest", repair.largest},
          {"sampled_spread", repair.sampled_spread},
          {"seconds", repair.seconds}};
}

template <typename T, typename ToJson>
json::array array_json(const std::vector<T>& all, const ToJson& to_json) {
  json::array array;
  for (const T& one : all) array.push_back(to_json(one));
  return array;
}

json::object outlook_json(const ScaleOutlook& outlook) {
  return {{"pages_per_node", outlook.pages_per_node},
          {"enter_s", outlook.enter_s},
          {"walk_s", outlook.walk_s},
          {"tell_s", outlook.tell_s},
          {"told_pages", outlook.told_pages},
          {"walk_all_s", outlook.walk_all_s},
          {"tell_all_s", outlook.tell_all_s},
          {"told_bytes", outlook.told_bytes},
          {"client_heap_bytes", outlook.client_heap_bytes},
          {"location_bytes", outlook.location_bytes},
          {"staging_bytes", outlook.staging_bytes},
          {"renewals_per_s", outlook.renewals_per_s},
          {"session_bytes", outlook.session_bytes},
          {"node_staging_bytes", outlook.node_staging_bytes},
          {"register_reads_per_s", outlook.register_reads_per_s},
          {"register_etcds", outlook.register_etcds},
          {"repairs", array_json(outlook.repairs, repair_json)}};
}

std::string evenness_row(const char* what, uint64_t nodes, const Evenness& even) {
  return fmt::format("{:<34}{:>8}{:>14.0f}{:>11.4f}{:>11.4f}{:>13.5f}{:>13.5f}{:>13.4f}\n", what,
                     nodes, even.mean, even.largest, even.smallest, even.deviation, even.chance,
                     even.largest_at_most);
}

std::string placement_table(const ScaleResult& result) {
  std::string table =
      fmt::format("{:<34}{:>8}{:>14}{:>11}{:>11}{:>13}{:>13}{:>13}\n", "placement", "nodes",
                  "keys a node", "largest", "smallest", "deviation", "by chance", "at 10^6 <=");
  const auto rows = [&table](uint64_t nodes, const PlacementSample& sample) {
    table += evenness_row("held, part of the mean", nodes, evenness(sample.held, kKeysPerNode));
    table += evenness_row("primary of, part of the mean", nodes,
                          evenness(sample.primaries, kKeysPerNode));
  };
  rows(result.dense_nodes, result.dense);
  rows(result.placement.held.size(), result.placement);
  return table;
}

std::string node_table(const ScaleResult& result) {
  std::string table =
      fmt::format("\n{:<22}{:>14}{:>18}{:>18}{:>22}\n", "one real node of", "lookup, us",
                  "epoch, us a page", "epoch, empty, ms", "client, KiB a link");
  for (const NodeCost& cost : result.node_costs) {
    table += fmt::format(
        "{:<22}{:>14.3f}{:>18.3f}{:>18.2f}{:>22.2f}\n", cost.nodes, cost.lookup_ns / 1e3,
        cost.enter_ns_per_page() / 1e3, ms(cost.enter_empty_ns),
        static_cast<double>(cost.client_heap_bytes) / static_cast<double>(cost.nodes) / 1024);
  }
  table +=
      fmt::format("\n{:<22}{:>18}{:>26}{:>16}{:>22}\n", "holdings, to all of", "walk, ns a page",
                  "to whole ones, ns a page", "told, ns a page", "answer of none, ns");
  for (const NodeCost& cost : result.node_costs) {
    table += fmt::format("{:<22}{:>18.0f}{:>26.0f}{:>16.0f}{:>22.0f}\n", cost.nodes,
                         cost.holdings.walk_ns_per_page(), cost.holdings.walk_whole_ns_per_page(),
                         cost.holdings.tell_ns_per_page(), cost.holdings.ns_per_answer());
  }
  table += fmt::format("\n{:<12}{:>10}{:>22}{:>26}\n", "real nodes", "clients",
                       "heap, KiB a client", "renewals a node and s");
  for (const auto* each : {&result.by_nodes, &result.by_clients}) {
    for (const Sessions& sessions : *each) {
      table += fmt::format("{:<12}{:>10}{:>22.1f}{:>26.1f}\n", sessions.nodes, sessions.clients,
                           static_cast<double>(sessions.heap_bytes_per_client) / 1024,
                           sessions.renewals_per_node_and_s);
    }
  }
  return table;
}

std::string time_text(uint64_t ns) {
  return ns == kNever ? "never" : fmt::format("{:.1f}", ms(ns));
}

std::string news_table(const ScaleResult& result) {
  const EpochNews& news = result.news;
  std::string table = fmt::format(
      "\na new epoch, virtual time: half of {} clients know it after {} ms, all after {} ms; "
      "{:.4f} "
      "of them had valid views all the time\n"
      "reads of the register: in ten times a view_lease before {} by clients and {} by nodes, in "
      "the one after {} by clients\n",
      news.clients, time_text(news.median_ns), time_text(news.last_ns), news.served,
      news.reads_before, news.node_reads_before, news.reads);
  for (const RegisterCost& cost : result.etcd) {
    table += fmt::format(
        "etcd, {} nodes' records: {:.0f} reads/s of all by {} readers, {:.2f} ms of a reader's "
        "processor each; {:.0f} reads/s of as many new confirmations, {:.2f} ms; {:.0f} reads/s "
        "that find nothing new, {:.2f} ms\n",
        cost.nodes, cost.whole.per_s, cost.readers, ms(cost.whole.client_cpu_ns),
        cost.changed.per_s, ms(cost.changed.client_cpu_ns), cost.unchanged.per_s,
        ms(cost.unchanged.client_cpu_ns));
  }
  return table;
}

double us(uint64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

std::string crowd_table(const ScaleResult& result) {
  std::string table =
      fmt::format("\n{:<22}{:>14}{:>14}{:>14}{:>14}{:>14}\n", "one node's clients", "heap, bytes",
                  "hello, us", "renewal, us", "put, us", "status, us");
  for (const CrowdCost& crowd : result.crowds) {
    table += fmt::format("{:<22}{:>14}{:>14.2f}{:>14.2f}{:>14.2f}{:>14.2f}\n", crowd.clients,
                         crowd.heap_bytes_per_client, us(crowd.hello_ns), us(crowd.renewal_ns),
                         us(crowd.put_ns), us(crowd.status_ns));
  }
  return table;
}

std::string every_node_table(const ScaleReport& report) {
  const EveryNode& every = report.result.every_node;
  std::string table = fmt::format(
      "\none client that asks all {} nodes at once, virtual time; heap, both ends: {:.1f} MiB, and "
      "{:.2f} MiB of a client that uses few\n",
      every.nodes, static_cast<double>(every.every_heap_bytes) / kMiB,
      static_cast<double>(every.few_heap_bytes) / kMiB);
  const auto row = [&table, &every](const char* what, const EveryNode::Fetch& fetch) {
    table += fmt::format(
        "{:<38}{:>7} of {} pages ready, {} wrong; the last after {:.2f} ms, {:.1f} us late\n", what,
        fetch.ready, every.pages, fetch.wrong, ms(fetch.last_ns), us(fetch.late_ns));
  };
  row("a new client", every.cold);
  row("once more", every.warm);
  row(fmt::format("with {} pages on silent nodes", every.of_silent).c_str(), every.silent);
  return table;
}

std::string outlook_table(const ScaleReport& report, const ScaleOutlook& outlook) {
  const ScaleOptions& options = report.options;
  constexpr double kGiBs = 1 << 30;
  std::string table = fmt::format(
      "\nwhat follows for {} nodes, {} clients, {} pages of {} with {} replicas\n"
      "each new epoch, of a node: {:.1f} s at entering it with {:.3g} pages; to tell the others "
      "what is theirs, {:.1f} s of walking and {:.4f} s of telling {:.3g} pages if they were whole "
      "and one has left, {:.1f} s and {:.1f} s if they tell of nothing, and {:.2f} GiB\n"
      "a client: {:.1f} MiB of heap, both ends; {:.0f} GiB of address space for page tables and "
      "{:.1f} GiB of staging by default\n"
      "a node: {:.0f} renewals/s of resting clients and members; {:.2f} GiB of heap, both ends; "
      "{:.0f} GiB of staging by default\n"
      "the register: {:.0f} reads/s by nodes; epoch {} bytes, a read of all {} bytes; "
      "a node looks for {:.0f} ms at who is silent",
      options.nodes, options.clients, options.pages, format_bytes(options.page_bytes),
      options.replicas, outlook.enter_s, outlook.pages_per_node, outlook.walk_s, outlook.tell_s,
      outlook.told_pages, outlook.walk_all_s, outlook.tell_all_s, outlook.told_bytes / kGiBs,
      outlook.client_heap_bytes / (1 << 20), outlook.location_bytes / kGiBs,
      outlook.staging_bytes / kGiBs, outlook.renewals_per_s, outlook.session_bytes / kGiBs,
      outlook.node_staging_bytes / kGiBs, outlook.register_reads_per_s,
      report.result.records.epoch_bytes, report.result.records.read_bytes,
      ms(report.result.records.find_all_ns));
  if (outlook.register_etcds > 0) {
    table += fmt::format("; {:.0f} x the etcd that was measured", outlook.register_etcds);
  }
  table += '\n';
  for (const ScaleOutlook::Repair& repair : outlook.repairs) {
    table += fmt::format(
        "{} lost at once: {:.2f} TiB to move, {:.2f} GiB a node (largest {:.4f} x; the sample "
        "spreads {:.2f} x as chance does), {:.0f} s at node.fill_bytes_per_s; {:.3g} pages gone\n",
        repair.lost, repair.bytes / kGiBs / 1024, repair.mean_bytes / kGiBs, repair.largest,
        repair.sampled_spread, repair.seconds, repair.pages_gone);
  }
  return table;
}

}  // namespace

json::object scale_json(const ScaleReport& report) {
  const ScaleOptions& options = report.options;
  const ScaleResult& result = report.result;
  const auto sample_json = [](const PlacementSample& sample) {
    return json::object{{"nodes", sample.held.size()},
                        {"keys", sample.keys},
                        {"held", evenness_json(evenness(sample.held, kKeysPerNode))},
                        {"primaries", evenness_json(evenness(sample.primaries, kKeysPerNode))}};
  };
  return {{"version", report.version},
          {"hardware", hardware_json()},
          {"options", json::object{{"nodes", options.nodes},
                                   {"clients", options.clients},
                                   {"pages", options.pages},
                                   {"replicas", options.replicas},
                                   {"page_bytes", options.page_bytes},
                                   {"lost", options.lost},
                                   {"keys", options.keys},
                                   {"seed", options.seed},
                                   {"threads", options.threads}}},
          {"measured",
           json::object{
               {"placement", json::array{sample_json(result.dense), sample_json(result.placement)}},
               {"nodes", array_json(result.node_costs, cost_json)},
               {"sessions_by_nodes", array_json(result.by_nodes, sessions_json)},
               {"sessions_by_clients", array_json(result.by_clients, sessions_json)},
               {"news", news_json(result.news)},
               {"crowds", array_json(result.crowds, crowd_json)},
               {"every_node", every_node_json(result.every_node)},
               {"epoch_record_bytes", result.records.epoch_bytes},
               {"register_read_bytes", result.records.read_bytes},
               {"find_all_ns", result.records.find_all_ns},
               {"held_page_bytes", result.held_page_bytes},
               {"etcd", array_json(result.etcd, etcd_json)}}},
          {"extrapolated", outlook_json(scale_outlook(options, result))}};
}

std::string scale_table(const ScaleReport& report) {
  return placement_table(report.result) + node_table(report.result) + news_table(report.result) +
         crowd_table(report.result) + every_node_table(report) +
         outlook_table(report, scale_outlook(report.options, report.result));
}

}  // namespace farpage
