#include "transport/verbs/fixed_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <deque>
#include <vector>

namespace farpage::verbs {
namespace {

RC_GTEST_PROP(FixedQueue, IsTheQueueThatItSays, (const std::vector<bool>& pushes)) {
  FixedQueue<int, 5> queue;
  std::deque<int> truth;
  int next = 0;
  for (const bool push : pushes) {
    if (push && !queue.full()) {
      queue.push(next);
      truth.push_back(next++);
    } else if (!push && !queue.empty()) {
      RC_ASSERT(queue.front() == truth.front());
      RC_ASSERT(queue.pop() == truth.front());
      truth.pop_front();
    }
    RC_ASSERT(queue.size() == truth.size());
    RC_ASSERT(queue.empty() == truth.empty());
    RC_ASSERT(queue.full() == (truth.size() == 5));
  }
}

TEST(FixedQueueDeathTest, MoreThanFitsIsAProgrammersMistake) {
  FixedQueue<int, 1> queue;
  EXPECT_DEATH(queue.pop(), "empty");
  queue.push(1);
  EXPECT_DEATH(queue.push(2), "full");
}

}  // namespace
}  // namespace farpage::verbs
