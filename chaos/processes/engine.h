#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "chaos/processes/checker.h"
#include "chaos/processes/destination.h"
#include "chaos/processes/gpu_frames.h"
#include "chaos/processes/lateness.h"
#include "report/processor_wait.h"
#include "sim/page_frames.h"
#include "tier/client.h"

namespace farpage::processes {

// The pages that clients fetch, put and remove. Kept ones are never removed, and the still ones
// among them, the first half, are put only by who looks for them: nobody's later put can hide that
// one was lost.
struct Keys {
  // `have_one_length`: all pages have the nodes' length, and not each key its own.
  Keys(size_t kept_count, size_t removable_count, bool have_one_length = false);

  std::vector<PageKey> all;
  size_t kept;
  bool have_one_length;
  size_t still() const { return kept / 2; }

  uint64_t length(size_t key, uint64_t page_bytes) const;
};

// A client of a real fleet, which judges all that it is answered: after start() on a thread of its
// own, before that and without it on its caller's.
class Engine {
 public:
  struct Counts {
    std::atomic<uint64_t> ready = 0;
    std::array<std::atomic<uint64_t>, kReasons> recompute = {};  // by Reason
    std::atomic<uint64_t> puts = 0;
    std::atomic<uint64_t> puts_acknowledged = 0;
    std::atomic<uint64_t> removes = 0;
    std::atomic<uint64_t> removes_acknowledged = 0;
    // Pages, puts and removes that somebody's silence has cost, though they had time.
    std::atomic<uint64_t> troubles = 0;
  };

  // `checker` and `keys` outlive it. Into a GPU it hedges nothing: that is for who drives a lane.
  static Result<std::unique_ptr<Engine>> make(std::string name, std::shared_ptr<Client> client,
                                              Checker& checker, const Keys& keys,
                                              uint64_t page_bytes, uint64_t seed,
                                              Destination destination = Destination::kHost);
  ~Engine();

  void start();
  // False: its thread has not ended by then, and nothing of it may be touched or destroyed.
  bool stop(uint64_t deadline_ns);
  // Afterwards: everything has to be released by then, and every frame as it was. False: something
  // is not, and a destructor would wait for it.
  bool finish(uint64_t deadline_ns);

  static constexpr size_t kMostPages = 16;  // of one fetch or put
  // Of each key; where all frames are held, it was not asked for: kPending, and kTimeout of a put.
  std::vector<PageVerdict> fetch(std::span<const size_t> keys, uint64_t in_ns, bool hedge = false,
                                 bool newest_known = false);
  std::vector<PutResult> put(std::span<const size_t> keys, uint64_t in_ns);
  void remove(size_t key, uint64_t in_ns);

  const std::string& name() const { return name_; }
  const Counts& counts() const { return counts_; }
  bool has_view() const { return client_->reachable(); }               // thread-safe
  const std::vector<Lateness>& lateness() const { return lateness_; }  // once it has stopped

 private:
  static constexpr size_t kFrames = 256;

  struct Page {
    size_t key;
    size_t frame;
    Truth::Bound bound;
    bool returned = false;
  };
  struct Running {
    std::vector<PageRequest> requests;
    std::vector<PageVerdict> verdicts;
    std::vector<Page> pages;
    Fetch fetch;    // into the host's memory
    Ticket ticket;  // or into a GPU's

    bool released() const { return fetch.released() && ticket.released(); }
    void wait_released(uint64_t deadline_ns) {
      fetch.wait_released(deadline_ns);
      ticket.wait_released(deadline_ns);
    }
  };

  Engine(std::string name, std::shared_ptr<Client> client, std::unique_ptr<GpuFrames> gpu,
         Checker& checker, const Keys& keys, uint64_t page_bytes, uint64_t seed);
  void run();
  void act();
  Slice destination(size_t frame, uint64_t bytes) const;
  void begin(Running& running, uint64_t deadline_ns, bool hedge);
  void wait(Running& running);
  void take_verdicts(Running& running);
  void judge(const Running& running, size_t page);
  void give_back(Running& running);
  void look_at_held();
  void look_at_released(const Running& running);
  void ended(uint64_t deadline_ns, const char* what, const ProcessorWait& wait,
             uint64_t others = 0);
  uint64_t now_ns() const { return client_->clock().now_ns(); }

  const std::string name_;
  std::shared_ptr<Client> client_;
  Checker& checker_;
  const Keys& keys_;
  const uint64_t page_bytes_;
  Random random_;
  std::unique_ptr<GpuFrames> gpu_;  // null: pages land in the host's memory
  PageFrames frames_;
  Region region_;
  std::unique_ptr<Lane> lane_;  // null: pages land in a GPU's memory
  std::list<Running> held_;
  Counts counts_;
  std::vector<Lateness> lateness_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> stopped_ = false;
  std::thread thread_;
};

}  // namespace farpage::processes
