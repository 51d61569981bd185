/* A memory node. One that takes no step is paused, or dead; its memory answers all the same.

   Each step is a d_step, because no step of others can fall into its middle and matter. One thread
   changes the key's bucket. A client's READ takes no lock, but sees a page as it was before the
   step or after it: a page that it could see in between, it could have seen just before or just
   after, for an acknowledgement is a step of its own. Messages wait in channels for any time, so
   sending one is no event either. A node that has entered an epoch kills at any time later, and
   confirms once it has: others see only the confirmation, so the two are one step. */

/* Switches the index to v and zeroes the old slot's live word: rule 1. */
inline apply(n, v) {
#if defined(no_live_word) || defined(no_live_word_before_ack)
    if
    :: held[n] != 0 -> stale[n] = held[n]
    :: else
    fi;
#endif
    if
    :: IS_REMOVE(v) -> held[n] = 0; raise_floor(n, v)
    :: else -> held[n] = v
    fi
}

inline raise_floor(n, v) {
#ifndef no_floor
    if
    :: NEWER(v, floor_[n]) -> floor_[n] = v
    :: else
    fi
#else
    skip
#endif
}

/* Unpublishes and zeroes the live word. */
inline forget(n) {
#ifdef no_live_word
    stale[n] = held[n];
#endif
    held[n] = 0
}

/* Rule 8: V has passed since the node learned of the epoch, which is after it came, and all members
   have confirmed it. */
#ifndef no_view_wait
#define WAITED(n) (ended + 1 >= epoch[n])
#else
#define WAITED(n) true
#endif
#ifndef no_confirm_before_puts
#define ALL_CONFIRMED(n) ((confirmed[epoch[n]] & members[epoch[n]]) == members[epoch[n]])
#else
#define ALL_CONFIRMED(n) true
#endif
#ifndef no_primary_lease
#define VIEW_VALID(n) (ended < epoch[n])
#else
#define VIEW_VALID(n) true
#endif

inline put(n) {
    puts++;
#ifdef no_epoch_in_version
    counter[n]++;
#endif
    v_ = VERSION(n, puts);
    printf("node %d: takes put %d as version %d.%d in epoch %d\n", n, puts, v_ / 4, v_ % 4, epoch[n]);
    reached(a_put_in_a_later_epoch, epoch[n] > 1);
    apply(n, v_);
    if
    :: OTHERS(n, epoch[n]) == 0 -> applied[n] = v_
    :: else ->
        repl[SESSION(n, OTHER(n, epoch[n]))] ! epoch[n], v_;
#ifdef no_all_of_epoch
        applied[n] = v_
#endif
    fi;
    v_ = 0
}

/* REPL from node p. Its answer is at the primary at once; the primary may look at it later, and
   that is the answer's delay. */
inline replicate(n, p) {
    repl[SESSION(p, n)] ? e_, v_;
    if
#ifndef no_epoch_in_messages
    :: e_ != epoch[n] ->
        reached(a_message_of_another_epoch_refused, true);
        printf("node %d: refuses version %d.%d of epoch %d, being in epoch %d\n", n, v_ / 4, v_ % 4, e_, epoch[n])
#endif
    :: else ->
        printf("node %d: applies version %d.%d of epoch %d from node %d, being in epoch %d\n", n, v_ / 4, v_ % 4, e_, p, epoch[n]);
        if
        :: NEWER(v_, held[n]) -> apply(n, v_)
        :: else                     /* no change, but an answer */
        fi;
        if
        :: e_ == epoch[p] -> applied[p] = v_
        :: else                     /* the primary has aborted it */
        fi
    fi;
    e_ = 0; v_ = 0
}

inline acknowledge(n) {
    printf("node %d: acknowledges version %d.%d in epoch %d\n", n, applied[n] / 4, applied[n] % 4, epoch[n]);
    reached(an_acknowledgement_in_the_last_epoch, epoch[n] == EPOCHS);
    reached(an_acknowledgement_behind_the_epoch, epoch[n] < now_epoch);
    reached(a_remove_acknowledged, IS_REMOVE(applied[n]));
    CHECK_ACKNOWLEDGEMENT(n);
    if
    :: !NEWER(acked, applied[n]) -> acked = applied[n]
    :: else
    fi;
    applied[n] = 0
}

inline confirm(n) {
    confirmed[epoch[n]] = confirmed[epoch[n]] | (1 << n)
}

/* Rule 8, in the order of the epochs. Own unacknowledged puts are aborted. A node that has nothing
   to kill confirms in the same step: to confirm sooner only allows more. */
inline enter(n, e) {
    epoch[n] = e;
#ifndef no_abort_on_entering
    applied[n] = 0;
#endif
#ifdef fills
#ifndef no_bytes_of_the_epoch_before
    bytes[n] = 0;
#endif
#endif
    if
    :: !IN_SET(n, epoch[n]) && held[n] != 0 ->
        unkilled = unkilled | (1 << n)
#ifdef no_kill_before_confirm
        ; confirm(n)
#endif
    :: else ->
        unkilled = unkilled & ~(1 << n);
        confirm(n)
    fi;
    printf("node %d: enters epoch %d\n", n, epoch[n]);
    reached(a_node_enters_outside_the_set, !IN_SET(n, epoch[n]))
}

inline kill_foreign(n) {
    unkilled = unkilled & ~(1 << n);
#ifndef no_drop_on_entering
    if
    :: held[n] != 0 ->
        printf("node %d: kills version %d.%d in epoch %d\n", n, held[n] / 4, held[n] % 4, epoch[n]);
        raise_floor(n, held[n]);
#ifdef fills
        bytes[n] = held[n];
#endif
        forget(n)
    :: else
    fi;
#endif
    confirm(n);
    printf("node %d: confirms epoch %d\n", n, epoch[n]);
    reached(an_epoch_confirmed_that_has_passed, epoch[n] < now_epoch)
}

#define RECEIVES(n, p) (n > p && nempty(repl[SESSION(p, n)]))

proctype node(byte n) {
    do
    :: d_step { puts < PUTS && PRIMARY(n, epoch[n]) && WAITED(n) && ALL_CONFIRMED(n) && VIEW_VALID(n) -> put(n) }
    :: d_step { RECEIVES(n, 0) -> replicate(n, 0) }
    :: d_step { RECEIVES(n, 1) -> replicate(n, 1) }
    :: d_step { applied[n] != 0 && VIEW_VALID(n) -> acknowledge(n) }
    :: d_step { epoch[n] < now_epoch && MEMBER(n, epoch[n] + 1) -> enter(n, epoch[n] + 1) }
    :: d_step { (unkilled >> n) & 1 -> kill_foreign(n) }
#ifdef no_own_transaction_return
    :: d_step { epoch[n] + 1 < now_epoch && !MEMBER(n, epoch[n] + 1) && MEMBER(n, epoch[n] + 2) ->
        enter(n, epoch[n] + 2) }
#endif
#ifdef no_live_word_before_ack
    :: d_step { stale[n] != 0 -> printf("node %d: zeroes version %d.%d\n", n, stale[n] / 4, stale[n] % 4); stale[n] = 0 }
#endif
#ifdef no_fifo_replication
    :: d_step { n > 0 && len(repl[n - 1]) > 1 -> repl[n - 1] ? e_, v_; repl[n - 1] ! e_, v_; e_ = 0; v_ = 0; printf("network: a message overtakes another\n") }
#endif
#ifdef evictions
    :: d_step { held[n] != 0 -> evict(n) }
#endif
#ifdef fills
    FILL_STEPS
#endif
    od
}
