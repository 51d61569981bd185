#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/client/c/c_client.h"

namespace farpage {
namespace {

bool is_refused(farpage_code_t code) {
  return code == FARPAGE_INVALID && std::strstr(farpage_last_error(), "is its fork") != nullptr;
}

// What a child of a process with threads may do: no allocation, no assertion.
TEST(CFork, TheChildMayNotUseWhatItsParentOpened) {
  auto memory = filled(1, 1);
  const auto client = open_client();
  farpage_region_t* region = register_all(client.get(), memory);
  const auto completions = make_completions();
  const auto pages = pages_in(memory);
  const auto keys = keys_up_to(1);
  const auto ticket = fetch(client.get(), pages);
  wait(ticket);

  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    farpage_t* c = client.get();
    farpage_ticket_t* t = ticket.get();
    farpage_ticket_t* made = nullptr;
    farpage_region_t* other = nullptr;
    const farpage_page_verdict_t* verdicts_of = nullptr;
    const farpage_put_result_t* results_of = nullptr;
    const farpage_access_t access = FARPAGE_ACCESS_INIT;
    farpage_statistics_t statistics = FARPAGE_STATISTICS_INIT;
    uint64_t number = 0;
    size_t count = 0;
    const bool refused[] = {
        farpage_page_bytes(c) == 0,
        is_refused(farpage_register(c, memory.data(), 1, &other)),
        is_refused(farpage_register_gpu(c, 4096, 1, &other)),
        is_refused(farpage_unregister(region)),
        is_refused(farpage_fetch(c, pages.data(), 1, 0, nullptr, &made)),
        is_refused(farpage_put(c, pages.data(), 1, 0, nullptr, &made)),
        is_refused(farpage_remove(c, keys.data(), 1, 0, nullptr, &made)),
        is_refused(farpage_exists(c, keys.data(), 1, 0, nullptr, &made)),
        is_refused(farpage_leading(c, keys.data(), 1, 0, &number)),
        is_refused(farpage_flush(c, 0)),
        is_refused(farpage_announce(c, keys.data(), 1, 0)),
        is_refused(farpage_withdraw(c, keys.data(), 1)),
        is_refused(farpage_mark_milestones(c, keys.data(), 1)),
        is_refused(farpage_observe(c, &access, 1)),
        is_refused(farpage_statistics(c, &statistics)),
        farpage_ticket_done(t) == -1,
        farpage_ticket_released(t) == -1,
        is_refused(farpage_ticket_wait(t, kTimeoutUs)),
        is_refused(farpage_ticket_wait_released(t, kTimeoutUs)),
        is_refused(farpage_ticket_verdicts(t, &verdicts_of, &count)),
        is_refused(farpage_ticket_results(t, &results_of, &count)),
        is_refused(farpage_ticket_removed(t, &number)),
        farpage_ticket_why(t)[0] == '\0',
        farpage_completions_fd(completions.get()) == -1,
        is_refused(farpage_completions_take(completions.get(), &number, 1, &count)),
        is_refused(farpage_close(c)),
    };
    farpage_ticket_free(t);
    farpage_completions_free(completions.get());
    int failed = 0;  // the first that was not refused, from 1 on
    for (int i = static_cast<int>(std::size(refused)); i > 0; --i) {
      if (!refused[i - 1]) failed = i;
    }
    ::_exit(failed);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  put_all(client.get(), pages);  // the parent goes on
}

}  // namespace
}  // namespace farpage
