#include "chaos/processes/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "chaos/campaign_options.h"
#include "chaos/processes/engine.h"
#include "chaos/processes/fleet.h"
#include "chaos/processes/kept_pages.h"
#include "chaos/processes/probe.h"
#include "chaos/processes/view_watch.h"
#include "chaos/report_parts.h"
#include "report/watchdog.h"

namespace farpage::processes {
namespace {

constexpr size_t kKept = 192;
constexpr size_t kRemovable = 64;
constexpr uint64_t kTickNs = 5 * kMillisecond;
constexpr uint64_t kLongestStartNs = 60 * kSecond;
constexpr uint64_t kLongestSettleNs = 60 * kSecond;
constexpr uint64_t kLongestLossNs = 20 * kSecond;
constexpr uint64_t kLongestEndNs = 30 * kSecond;   // of a client's last operation
constexpr uint64_t kSweepNs = 100 * kMillisecond;  // for one fetch of a sweep
constexpr uint64_t kWriteNs = kSecond;             // for one put of a sweep
constexpr uint64_t kPatienceNs = 2 * kSecond;      // for one page

uint64_t now_ns() {
  return boottime_clock().now_ns();
}

double seconds_since(uint64_t begin_ns) {
  return static_cast<double>(now_ns() - begin_ns) / kSecond;
}

class Campaign {
 public:
  Campaign(const CampaignOptions& options, const std::string& folder, const Program& program)
      : program_(program),
        longer_(slowness(options.plan.nodes)),
        keys_(kKept, kRemovable, options.destination == Destination::kGpuBlocks) {
    result_.options = options;
    fleet_options_.has_network = options.has_network;
    fleet_options_.nodes = options.plan.nodes;
    fleet_options_.lease_ms *= longer_;
    fleet_options_.ttl_s *= longer_;
    fleet_options_.replicas = options.replicas;
    fleet_options_.folder = folder;
    fleet_options_.program = program.node_program;
    result_.lease_ms = fleet_options_.lease_ms;
    whole_.replicas = std::min(options.replicas, options.plan.nodes);
    for (size_t node = 0; node < options.plan.nodes; ++node) {
      whole_.members.push_back({node_id(fmt::format("n{}", node)), 0});
    }
    whole_.give_slots();
  }

  Result<CampaignResult> run() {
    auto fleet = Fleet::start(fleet_options_);
    if (!fleet) return tl::unexpected(fleet.error());
    fleet_ = std::move(*fleet);
    if (auto connected = connect(); !connected) return tl::unexpected(connected.error());
    const uint64_t began_ns = now_ns();
    {
      Watchdog watchdog;
      settle();
      for (auto& engine : engines_) engine->start();
      ViewWatch views(views_of_clients());
      for (const Round& round : draw_plan(result_.options.plan)) {
        if (!goes_on()) break;
        attack(round);
      }
      if (result_.options.outage_s > 0 && goes_on()) suffer_outage();
      views.stop();
      result_.without_view_ns = views.longest_ns();
      end_engines();
      watchdog.stop();
      result_.delay_most_ns = watchdog.most_ns();
      result_.delay_p99_ns = watchdog.delay_ns().quantile(0.99);
    }
    judge_lateness();
    result_.seconds = seconds_since(began_ns);
    result_.interrupted = program_.interrupted();
    result_.starts_again = fleet_->starts_again();
    result_.findings = checker_.findings();
    return std::move(result_);
  }

 private:
  bool goes_on() const { return checker_.found_nothing() && !program_.interrupted() && !failed_; }

  // Fleet's own failures are this machine's.
  void hold(const Result<void>& done) {
    if (done || failed_) return;
    failed_ = true;
    checker_.add(FindingKind::kUnfinished, "the attack itself failed: " + done.error().message);
  }

  void note(std::string what) {
    result_.history.push_back(fmt::format("+{:.3f} s: {}", checker_.seconds(), what));
  }

  Result<void> connect() {
    const uint64_t deadline_ns = now_ns() + longer_ * kLongestStartNs;
    while (!states()) {
      if (program_.interrupted()) return fail(Code::kAborted, "interrupted");
      if (now_ns() > deadline_ns) {
        return fail(Code::kTimeout,
                    fmt::format("the nodes and their etcd did not come up in {} "
                                "s: their logs are in {}",
                                longer_ * kLongestStartNs / kSecond, fleet_options_.folder));
      }
      pass(kTickNs);
    }
    for (uint64_t client = 0; client <= result_.options.clients; ++client) {
      auto connected = program_.connect(fleet_->endpoints(), result_.options.backend);
      if (!connected) return tl::unexpected(connected.error());
      auto engine = Engine::make(client == 0 ? "prober" : fmt::format("client {}", client),
                                 std::move(*connected), checker_, keys_, fleet_options_.page_bytes,
                                 result_.options.plan.seed + client, result_.options.destination);
      if (!engine) return tl::unexpected(engine.error());
      if (client == 0) {
        prober_ = std::move(*engine);
      } else {
        engines_.push_back(std::move(*engine));
      }
    }
    return {};
  }

  std::vector<std::function<bool()>> views_of_clients() const {
    std::vector<std::function<bool()>> views = {[this] { return prober_->has_view(); }};
    for (const auto& engine : engines_) {
      views.push_back([at = engine.get()] { return at->has_view(); });
    }
    return views;
  }

  // Lets time pass, and looks after the processes.
  void pass(uint64_t ns) {
    const uint64_t end_ns = now_ns() + ns;
    do {
      hold(fleet_->tend());
      for (; crashes_ < fleet_->crashes().size(); ++crashes_) {
        checker_.add(FindingKind::kUnfinished, fleet_->crashes()[crashes_]);
      }
      while (!felt_.empty() && now_ns() >= felt_.front().until_ns) {
        const Felt felt = felt_.front();
        felt_.pop_front();
        if (troubles() > felt.troubles) ++result_.felt[static_cast<size_t>(felt.kind)];
      }
      std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(ns, kTickNs)));
    } while (now_ns() < end_ns && !failed_);
  }

  uint64_t troubles() const {
    uint64_t sum = prober_->counts().troubles;
    for (const auto& engine : engines_) sum += engine->counts().troubles;
    return sum;
  }

  // Nothing: somebody is not there, does not reach another, or has something left to fill.
  std::optional<std::vector<NodeState>> states() {
    std::vector<NodeState> states;
    uint64_t epoch = 0;
    for (size_t node = 0; node < whole_.members.size(); ++node) {
      const auto status = program_.status(fleet_->address(node));
      if (!status) return std::nullopt;
      const FleetStatus& fleet = status->fleet;
      const auto reached = std::ranges::count_if(
          fleet.others, [](const MemberStatus& other) { return other.reached; });
      const bool has_others = static_cast<size_t>(reached) + 1 == whole_.members.size();
      if (fleet.node == 0 || fleet.to_fill > 0 || !has_others) return std::nullopt;
      if (node > 0 && status->epoch != epoch) return std::nullopt;
      epoch = status->epoch;
      states.push_back({whole_.members[node].node, status->incarnation, status->evictions});
    }
    return states;
  }

  void begin(const Disturbance& disturbance) {
    note(describe(disturbance));
    ++result_.injected[static_cast<size_t>(disturbance.kind)];
    const uint64_t until_ns =
        now_ns() + (disturbance.for_ms + fleet_options_.lease_ms) * kMillisecond;
    felt_.push_back({disturbance.kind, troubles(), until_ns});
    hold(fleet_->begin(disturbance));
    program_.progress(chaos::sum_of(result_.injected));
  }

  void attack(const Round& round) {
    ++result_.rounds;
    note(fmt::format("round {} of seed {}", result_.rounds, result_.options.plan.seed));
    lose_node(round.front().node);
    const uint64_t began_ns = now_ns();
    std::vector<std::pair<uint64_t, const Disturbance*>> ends;  // the last that are due first
    const auto end_those_due = [&](uint64_t by_ns) {
      while (!ends.empty() && ends.front().first <= by_ns) {
        hold(fleet_->end(*ends.front().second));
        ends.erase(ends.begin());
      }
    };
    const auto wait_until = [&](uint64_t time_ns) {
      while (now_ns() < time_ns && goes_on()) {
        pass(std::min(kTickNs, time_ns - std::min(time_ns, now_ns())));
        end_those_due(now_ns());
      }
    };
    for (const Disturbance& next : round) {
      const uint64_t at_ns = began_ns + next.at_ms * kMillisecond;
      wait_until(at_ns);
      if (!goes_on()) break;
      begin(next);
      ends.emplace_back(now_ns() + next.for_ms * kMillisecond, &next);
      std::ranges::sort(ends);
    }
    if (!ends.empty()) wait_until(ends.back().first);
    end_those_due(kNever);
    settle();
  }

  // With everything repaired: until every kept key is served by those that are left. Killed, a
  // node's host still answers that no process listens; parted, nothing of it answers any more.
  void lose_node(size_t node) {
    const bool is_killed = !fleet_options_.has_network || result_.rounds % 2 == 1;
    const Disturbance loss = {0, is_killed ? Kind::kKilled : Kind::kParted, node, 0};
    if (whole_.replicas < 2 || !result_.options.plan.kinds[static_cast<size_t>(loss.kind)]) return;
    note(fmt::format("node n{} {}, until every key is served without it", node,
                     kKindNames[static_cast<size_t>(loss.kind)]));
    ++result_.injected[static_cast<size_t>(loss.kind)];
    hold(fleet_->begin(loss));
    const uint64_t lost_ns = now_ns();
    const uint64_t deadline_ns = lost_ns + kLongestLossNs;
    bool served = false;
    while (!served && now_ns() < deadline_ns && goes_on()) {
      served = all_served(*prober_, keys_, kSweepNs);
      if (!served) pass(0);
    }
    auto& times = is_killed ? result_.killed_s : result_.parted_s;
    if (served) {
      times.push_back(seconds_since(lost_ns));
    } else if (goes_on()) {
      checker_.add(FindingKind::kUnfinished,
                   fmt::format("without node n{} not every key was served", node));
    }
    hold(fleet_->end(loss));
  }

  // Everything has to come back by itself, and what had to be kept must still be there.
  void settle() {
    const uint64_t began_ns = now_ns();
    const uint64_t deadline_ns = began_ns + longer_ * kLongestSettleNs;
    std::string missing = "the nodes do not all reach each other with nothing left to fill";
    while (goes_on()) {
      if (settle_once(missing)) {
        result_.settle_s.push_back(seconds_since(began_ns));
        return;
      }
      if (now_ns() > deadline_ns) {
        checker_.add(FindingKind::kUnfinished,
                     fmt::format("{} s after the last disturbance {}",
                                 longer_ * kLongestSettleNs / kSecond, missing));
      }
      pass(kTickNs);
    }
  }

  bool settle_once(std::string& missing) {
    const auto before = states();
    if (!before) return false;
    for (const auto& engine : engines_) {
      if (!works(*engine, missing)) return false;
    }
    if (!sweep(*before, missing)) return false;
    const auto after = states();
    if (!after || *after != *before) return false;
    kept_.emplace(whole_, *after);
    return true;
  }

  // It has fetched and put again.
  bool works(const Engine& engine, std::string& missing) {
    const uint64_t ready = engine.counts().ready;
    const uint64_t acknowledged = engine.counts().puts_acknowledged;
    const uint64_t deadline_ns = now_ns() + kPatienceNs;
    const auto goes = [&] {
      return engine.counts().ready > ready && engine.counts().puts_acknowledged > acknowledged;
    };
    while (result_.rounds > 0 && !goes()) {
      if (now_ns() > deadline_ns || !goes_on()) {
        missing = fmt::format("{} neither fetches nor puts again", engine.name());
        return false;
      }
      pass(kTickNs);
    }
    return true;
  }

  // Every kept key is read, or put again.
  bool sweep(const std::vector<NodeState>& now, std::string& missing) {
    for (size_t key = 0; key < keys_.kept && goes_on(); ++key) {
      const PageVerdict verdict = prober_->fetch({&key, 1}, kPatienceNs)[0];
      const bool must_be_there =
          key < keys_.still() && kept_ && kept_->must_be_there(keys_.all[key], now);
      if (verdict.verdict == Verdict::kReady) {
        result_.pages_kept += must_be_there ? 1 : 0;
        continue;
      }
      if (must_be_there && verdict.reason == Reason::kMiss) {
        checker_.add(
            FindingKind::kLostAcknowledgedPut,
            fmt::format("key {} is gone, though a node that had it has lost nothing", key));
        return false;
      }
      const PutResult put = prober_->put({&key, 1}, kPatienceNs)[0];
      if (put.code != Code::kOk) {
        missing = fmt::format("key {} can be neither read ({}) nor put ({})", key,
                              reason_name(verdict.reason), code_name(put.code));
        return false;
      }
      result_.pages_gone += result_.rounds > 0 ? 1 : 0;
    }
    return goes_on();
  }

  void suffer_outage() {
    const Disturbance outage = {0, Kind::kEtcdKilled, 0, result_.options.outage_s * 1'000};
    begin(outage);
    const uint64_t gone_ns = now_ns();
    while (now_ns() < gone_ns + result_.options.outage_s * kSecond && goes_on()) pass(kTickNs);
    result_.outage_s = seconds_since(gone_ns);
    hold(fleet_->end(outage));
    while (!etcd_serves(fleet_->endpoints(), now_ns() + kSweepNs) && goes_on()) pass(0);
    const uint64_t back_ns = now_ns();
    note("etcd answers again");
    std::string missing = "not every key can be put and read again";
    // Before a put could hide that they are gone.
    std::vector<size_t> unknown(keys_.still());
    std::iota(unknown.begin(), unknown.end(), size_t{0});
    std::set<size_t> gone;
    while (goes_on()) {
      for (const size_t key : find_missing(*prober_, unknown, kSweepNs)) gone.insert(key);
      if (unknown.empty() && all_put(*prober_, keys_, kWriteNs) &&
          all_served(*prober_, keys_, kSweepNs) &&
          std::ranges::all_of(engines_, [&](const auto& each) { return works(*each, missing); })) {
        result_.full_service_s = seconds_since(back_ns);
        break;
      }
      if (now_ns() > back_ns + longer_ * kLongestSettleNs) {
        checker_.add(FindingKind::kUnfinished,
                     fmt::format("{} s after etcd's return {}",
                                 longer_ * kLongestSettleNs / kSecond, missing));
      }
      pass(0);
    }
    const auto before = std::exchange(kept_, std::nullopt);
    settle();
    if (before && kept_) judge_outage(*before, gone);
  }

  // Each node's role before the outage, and now that all is well.
  void judge_outage(const KeptPages& before, const std::set<size_t>& gone) {
    for (size_t key = 0; key < keys_.still(); ++key) {
      if (!before.must_have_stayed(keys_.all[key], kept_->began())) continue;
      if (!gone.contains(key)) {
        ++result_.pages_kept;
        continue;
      }
      checker_.add(FindingKind::kLostAcknowledgedPut,
                   fmt::format("key {} was gone when etcd was back, though the nodes that had it "
                               "have lost nothing",
                               key));
    }
  }

  void end_engines() {
    const uint64_t deadline_ns = now_ns() + kLongestEndNs;
    for (auto& engine : engines_) {
      if (engine->stop(deadline_ns)) continue;
      checker_.add(FindingKind::kUnfinished, engine->name() + " hangs");
      (void)engine.release();  // its thread still uses it
    }
    std::erase(engines_, nullptr);
    result_.recompute.resize(kReasons);
    engines_.push_back(std::move(prober_));
    for (auto& engine : engines_) {
      const bool is_over = engine->finish(now_ns() + kLongestEndNs);
      const Engine::Counts& counts = engine->counts();
      result_.ready += counts.ready;
      for (size_t reason = 0; reason < kReasons; ++reason) {
        result_.recompute[reason] += counts.recompute[reason];
      }
      result_.puts += counts.puts;
      result_.puts_acknowledged += counts.puts_acknowledged;
      result_.removes += counts.removes;
      result_.removes_acknowledged += counts.removes_acknowledged;
      late_.insert(late_.end(), engine->lateness().begin(), engine->lateness().end());
      if (!is_over) (void)engine.release();  // its destructor would wait
    }
    engines_.clear();
  }

  void judge_lateness() {
    const auto to_ms = [](uint64_t ns) { return static_cast<double>(ns) / kMillisecond; };
    const uint64_t most_ns = result_.delay_most_ns;
    for (const Lateness& late : late_) {
      result_.lateness_ns.push_back(late.ns);
      if (late.is_explained(most_ns)) continue;
      checker_.add(FindingKind::kMissedDeadlines,
                   fmt::format("{} ended {:.3f} ms after its deadline; its thread ran {:.3f} ms "
                               "and waited {:.3f} ms for a processor, and the watchdog {:.3f} ms "
                               "at most",
                               late.what, to_ms(late.ns), to_ms(late.ran_ns), to_ms(late.waited_ns),
                               to_ms(most_ns)));
    }
  }

  struct Felt {
    Kind kind;
    uint64_t troubles;  // there were when it began
    uint64_t until_ns;
  };

  const Program& program_;
  const uint64_t longer_;
  FleetOptions fleet_options_;
  Keys keys_;
  Epoch whole_;
  CampaignResult result_;
  Checker checker_;
  std::unique_ptr<Fleet> fleet_;
  std::unique_ptr<Engine> prober_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<Lateness> late_;
  std::optional<KeptPages> kept_;
  std::deque<Felt> felt_;
  size_t crashes_ = 0;
  bool failed_ = false;
};

}  // namespace

Result<void> CampaignOptions::validate() {
  if (plan.disturbances == 0) return fail(Code::kInvalid, "no disturbances: choose at least 1");
  if (auto size = chaos::check_cluster_size(clients, plan.nodes, replicas); !size) return size;
  if (outage_s > 3'600) {
    return fail(Code::kInvalid, fmt::format("an outage of {} s: choose at most 3600", outage_s));
  }
  bool any = false;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (!has_network && is_of_network(static_cast<Kind>(kind))) plan.kinds[kind] = false;
    any |= plan.kinds[kind];
  }
  if (!any) {
    return fail(
        Code::kInvalid,
        fmt::format("nothing to disturb with: over {} there is no network to cut", backend));
  }
  return {};
}

Result<CampaignResult> run_campaign(const CampaignOptions& options, const std::string& folder,
                                    const Program& program) {
  silence_warnings();
  return Campaign(options, folder, program).run();
}

}  // namespace farpage::processes
