/* The epoch key in etcd, and the passing of V. */

inline begin_epoch(m) {
    members[now_epoch + 1] = m;
    now_epoch++
}

/* A node's lease at etcd ran out. It may be dead, paused, or cut off, and need not know. */
#define LEAVE_OUT(n) d_step { now_epoch < EPOCHS && MEMBER(n, now_epoch) && members[now_epoch] != (1 << n) -> \
    begin_epoch(members[now_epoch] & ~(1 << n)); \
    printf("etcd: epoch %d leaves out node %d\n", now_epoch, n) }

/* Rule 9: a node that was left out, or that was started again, comes back by its own transaction:
   new incarnation, new registrations, nothing in it. Answers of its memory until then are answers
   from before this step. */
#define COME_BACK(n) d_step { now_epoch < EPOCHS -> \
    reached(a_left_out_node_comes_back, !MEMBER(n, now_epoch)); \
    reached(a_member_starts_again, MEMBER(n, now_epoch)); \
    begin_epoch(members[now_epoch] | (1 << n)); \
    born[n] = now_epoch; epoch[n] = now_epoch; confirmed[now_epoch] = 1 << n; \
    held[n] = 0; floor_[n] = 0; applied[n] = 0; unkilled = unkilled & ~(1 << n); lose_the_rest(n); \
    printf("node %d: comes back, empty, with epoch %d\n", n, now_epoch) }

inline lose_the_rest(n) {
#ifdef fills
    bytes[n] = 0;
#endif
#ifdef no_epoch_in_version
    counter[n] = 0;
#endif
#if defined(no_live_word) || defined(no_live_word_before_ack)
    stale[n] = 0;
#endif
    skip
}

#define TAKE_BACK(n) d_step { now_epoch < EPOCHS && !MEMBER(n, now_epoch) -> \
    begin_epoch(members[now_epoch] | (1 << n)); \
    printf("etcd: epoch %d takes back node %d as it is\n", now_epoch, n) }

proctype membership() {
    do
    :: LEAVE_OUT(0)
    :: LEAVE_OUT(1)
    :: LEAVE_OUT(2)
    :: COME_BACK(0)
    :: COME_BACK(1)
    :: COME_BACK(2)
#ifdef no_own_transaction_return
    :: TAKE_BACK(0)
    :: TAKE_BACK(1)
    :: TAKE_BACK(2)
#endif
    :: d_step { ended + 1 < now_epoch -> ended++; printf("time: no view of epoch %d is valid any more\n", ended) }
    od
}
