#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "sim/findings.h"
#include "sim/judged_fetches.h"
#include "sim/sim_cluster.h"
#include "sim/truth.h"
#include "tier/client.h"

namespace farpage {

class SimEngine;

// Of a page that is fetched, put or removed.
struct Asked {
  const SimEngine* engine;
  PageKey key;
  uint64_t sent_ns;
  uint64_t deadline_ns;
};

// Whether nobody has answered a write, or somebody in another epoch. Slots that are taken and bytes
// that are damaged are another's doing.
inline bool is_of_silence(Code code) {
  return code == Code::kTimeout || code == Code::kUnavailable || code == Code::kOtherEpoch;
}

// Hears of the outcome of an engine's operations. All but the landing is told once.
class EngineWitness {
 public:
  virtual ~EngineWitness() = default;
  virtual void put_sent(const PageKey& /*key*/, uint64_t /*number*/) {}
  virtual void put_ended(const Asked& /*asked*/, uint64_t /*number*/, const PutResult& /*result*/) {
  }
  virtual void remove_sent(const PageKey& /*key*/) {}
  // kOk: it is acknowledged.
  virtual void remove_ended(const Asked& /*asked*/, Code /*code*/) {}
  // The destination's verdict; what lands there from now on is of another fetch, or late.
  virtual void page_judged(const std::byte* /*destination*/, const Asked& /*asked*/,
                           const PageVerdict& /*verdict*/) {}
};

// One engine of a simulation, with many fetches, puts and removes under way. observe() looks at all
// of them between two events of the world, so that every verdict is judged at the instant it is
// given. Violations that it sees go to the findings.
class SimEngine {
 public:
  struct Counts {
    uint64_t ready = 0;
    uint64_t recompute = 0;
    uint64_t held = 0;
    uint64_t hedged = 0;     // ready in a place of the lane's
    uint64_t hopeless = 0;   // fetches with less time than any read takes
    uint64_t cancelled = 0;  // fetches that were let go while they were under way
    uint64_t puts = 0;
    uint64_t puts_acknowledged = 0;
    uint64_t removes_acknowledged = 0;
  };

  // All that it is given outlives it.
  SimEngine(sim::World& world, std::unique_ptr<Client> client, Truth& truth, Findings& findings,
            uint64_t page_bytes, EngineWitness* witness = nullptr);
  ~SimEngine();

  bool owns(const std::byte* destination) const { return fetches_.owns(destination); }
  // Whether this is a destination whose page has no verdict yet.
  bool awaits(const std::byte* destination) const { return fetches_.awaits(destination); }

  // Its thread stands still until resume(), and so no verdict is asked of it meanwhile.
  void pause();
  void resume();
  bool paused() const { return fetches_.paused(); }

  void start_fetch(const std::vector<uint64_t>& key_numbers, uint64_t in_ns, bool newest_known);
  // Lets go of what was begun last, if a page of it has no verdict yet. Time passes until its
  // destinations are its own again.
  void cancel_last_fetch();
  // One put of these pages, some of which may be of one key; each has its own put number.
  void start_put(const std::vector<uint64_t>& key_numbers, uint64_t in_ns);
  void start_remove(uint64_t key_number, uint64_t in_ns);
  void check_contains(uint64_t key_number, uint64_t in_ns);

  // Progress, and everything that has ended since.
  void observe();
  bool idle() const { return fetches_.idle() && puts_.empty() && removes_.empty(); }
  void check_frames() { fetches_.frames().check_all(); }

  // Blocks; for the end of a run.
  PutResult put_now(uint64_t key_number, uint64_t in_ns);
  PageVerdict fetch_now(uint64_t key_number, uint64_t in_ns);

  Client& client() { return *client_; }
  LaneStats lane_stats() const { return lane_->stats(); }
  Counts counts() const;

 private:
  using RunningFetch = JudgedFetches<Fetch>::Running;

  struct SentPage {
    PageKey key;
    uint64_t number;
  };
  struct RunningPut {
    Put put;
    std::vector<SentPage> pages;
    std::vector<size_t> frames;  // lent until the put is released
    uint64_t sent_ns;
    uint64_t deadline_ns;
    bool ended = false;
  };
  struct RunningRemove {
    Remove remove;
    PageKey key;
    Truth::SentRemove sent;
    uint64_t sent_ns;
    uint64_t deadline_ns;
  };

  // Tells the witness, and judges what only an engine that never blocks can be held to.
  void verdict_given(const RunningFetch& running, size_t page);
  RunningPut send_put(const std::vector<uint64_t>& key_numbers, uint64_t in_ns);
  void end_put(RunningPut& running);
  bool released(RunningPut& running, uint64_t deadline_ns);

  sim::World& world_;
  std::unique_ptr<Client> client_;
  Truth& truth_;
  Findings& findings_;
  EngineWitness& witness_;
  uint64_t page_bytes_;
  JudgedFetches<Fetch> fetches_;
  std::unique_ptr<Lane> lane_;  // goes before the memory that it reads into
  std::list<RunningPut> puts_;
  std::list<RunningRemove> removes_;
  Counts counts_;  // without what the fetches count themselves
};

using SimEngines = std::vector<std::unique_ptr<SimEngine>>;
// Lets time pass, and every engine look at what comes at the instant that it comes.
void live_until(sim::World& world, const SimEngines& engines, uint64_t time_ns);
// Until nothing of theirs is under way and each of them reaches its nodes. False: not by then.
bool wait_until_idle(sim::World& world, const SimEngines& engines, uint64_t deadline_ns);

}  // namespace farpage
