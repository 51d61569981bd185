#include <fmt/format.h>

#include "tier/ahead/prefetch_lane.h"

namespace farpage {
namespace {

struct Fate {
  const char* name;
  uint64_t prefetch::PrefetchAccount::*number;
};
// Outcomes of pages that had begun, and are neither under way nor here.
constexpr Fate kFates[] = {
    {"timely", &prefetch::PrefetchAccount::timely},
    {"late", &prefetch::PrefetchAccount::late},
    {"unused", &prefetch::PrefetchAccount::unused},
    {"evicted", &prefetch::PrefetchAccount::evicted},
    {"failed", &prefetch::PrefetchAccount::failed},
};
constexpr Fate kNeverBegun[] = {
    {"refused", &prefetch::PrefetchAccount::refused},
    {"cancelled", &prefetch::PrefetchAccount::cancelled},
    {"overtaken", &prefetch::PrefetchAccount::overtaken},
};

}  // namespace

void PrefetchLane::describe(MetricVisitor& visitor) const {
  const PrefetchReport now = report();
  const auto count = [&](std::string_view name, std::string_view help, uint64_t number) {
    visitor.counter(name, help, static_cast<double>(number));
  };
  const auto gauge = [&](std::string_view name, std::string_view help, uint64_t number) {
    visitor.gauge(name, help, static_cast<double>(number));
  };
  count("farpage_prefetch_begun_pages_total", "Pages fetched ahead of their demands",
        now.pages.begun);
  visitor.family("farpage_prefetch_pages_total", "Pages that were fetched ahead, by outcome",
                 MetricKind::kCounter);
  for (const Fate& fate : kFates) {
    visitor.value({{"fate", fate.name}}, static_cast<double>(now.pages.*fate.number));
  }
  visitor.family("farpage_prefetch_dropped_pages_total",
                 "Pages that were named and not fetched ahead", MetricKind::kCounter);
  for (const Fate& fate : kNeverBegun) {
    visitor.value({{"why", fate.name}}, static_cast<double>(now.pages.*fate.number));
  }
  gauge("farpage_prefetch_waiting_pages", "Pages that wait to be fetched ahead", now.waiting);
  gauge("farpage_prefetch_under_way_pages", "Pages under way ahead of their demands",
        now.under_way);
  gauge("farpage_prefetch_window_pages", "How many may be: less where demands feel it",
        now.window_pages);
  gauge("farpage_prefetch_here_pages", "Pages that are here and have not been demanded", now.here);
  gauge("farpage_prefetch_taken_places", "Places of the landing that are in use", now.taken_places);
  gauge("farpage_prefetch_known_pages", "Pages that are remembered", now.known_pages);
  count("farpage_prefetch_forgotten_pages_total", "Pages forgotten for others",
        now.forgotten_pages);
  count("farpage_prefetch_unknown_keys_total", "Marks and withdrawals of pages never heard of",
        now.unknown_keys);
  count("farpage_prefetch_malformed_events_total", "Events with a number or a head that is none",
        now.malformed_events);
  count("farpage_prefetch_lent_pages_total", "Demanded pages that were lent out of the landing",
        now.lent);
  count("farpage_prefetch_outdated_pages_total",
        "Demanded pages that were fetched ahead, and again because they were outdated",
        now.outdated);
  count("farpage_prefetch_given_up_pages_total",
        "Demanded pages that were under way for too long, and fetched again", now.given_up);
}

std::string PrefetchLane::status() const {
  const PrefetchReport now = report();
  std::string text = fmt::format("fetched ahead: {} pages, of which {} under way, {} here",
                                 now.pages.begun, now.under_way, now.here);
  for (const Fate& fate : kFates) {
    text += fmt::format(", {} {}", now.pages.*fate.number, fate.name);
  }
  text += fmt::format("\nwaiting: {}; named, and not begun:", now.waiting);
  for (const Fate& fate : kNeverBegun) {
    text += fmt::format(" {} {}", now.pages.*fate.number, fate.name);
  }
  text += fmt::format(
      "\nwindow: {} pages; places: {} taken; demanded: {} lent, {} outdated, {} given up\n",
      now.window_pages, now.taken_places, now.lent, now.outdated, now.given_up);
  text += fmt::format("known: {} pages, {} forgotten; {} unknown keys, {} malformed events\n",
                      now.known_pages, now.forgotten_pages, now.unknown_keys, now.malformed_events);
  return text;
}

}  // namespace farpage
