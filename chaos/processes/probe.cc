#include "chaos/processes/probe.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "etcd/client.h"
#include "etcd/records.h"

namespace farpage::processes {
namespace {

template <typename Ask>
bool for_all(const Keys& keys, const Ask& ask) {
  std::vector<size_t> batch;
  for (size_t key = 0; key < keys.kept; ++key) {
    batch.push_back(key);
    if (batch.size() < Engine::kMostPages && key + 1 < keys.kept) continue;
    if (!ask(batch)) return false;
    batch.clear();
  }
  return true;
}

}  // namespace

bool all_served(Engine& engine, const Keys& keys, uint64_t in_ns) {
  return for_all(keys, [&](const std::vector<size_t>& batch) {
    return std::ranges::all_of(engine.fetch(batch, in_ns), [](const PageVerdict& verdict) {
      return verdict.verdict == Verdict::kReady;
    });
  });
}

std::vector<size_t> find_missing(Engine& engine, std::vector<size_t>& unknown, uint64_t in_ns) {
  std::vector<size_t> missing;
  const std::vector<size_t> asked = std::exchange(unknown, {});
  for (size_t first = 0; first < asked.size(); first += Engine::kMostPages) {
    const auto batch =
        std::span(asked).subspan(first, std::min(Engine::kMostPages, asked.size() - first));
    const std::vector<PageVerdict> verdicts = engine.fetch(batch, in_ns);
    for (size_t page = 0; page < batch.size(); ++page) {
      if (verdicts[page].verdict == Verdict::kReady) continue;
      const bool is_missing = verdicts[page].reason == Reason::kMiss;
      (is_missing ? missing : unknown).push_back(batch[page]);
    }
  }
  return missing;
}

bool all_put(Engine& engine, const Keys& keys, uint64_t in_ns) {
  return for_all(keys, [&](const std::vector<size_t>& batch) {
    return std::ranges::all_of(engine.put(batch, in_ns),
                               [](const PutResult& put) { return put.code == Code::kOk; });
  });
}

bool etcd_serves(const std::string& endpoints, uint64_t deadline_ns) {
  etcd::EtcdOptions options;
  options.endpoints = endpoints;
  auto access = options.load();
  if (!access) return false;
  etcd::Client client(std::move(*access));
  return client.run(etcd::read_fleet(client.prefix()), deadline_ns).has_value();
}

}  // namespace farpage::processes
