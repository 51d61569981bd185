/* I4: one fetch, two places, two attempts, one deadline. Place 0 is the caller's, place 1 the
   tier's own. An attempt brings a header and two words of payload, and writes them one by one,
   whenever it likes, as long as it has not ended. The lane's thread posts, polls and sweeps; the
   check has a thread of its own. */

#include "reached.pml"

mtype = { PENDING, COPYING, READY, RECOMPUTE };
mtype verdict = PENDING;
byte ready_at;                      /* place + 1 */
byte checked;                       /* place + 1, between its check and its verdict */
bool released[2];                   /* the caller, or the next fetch, may use it for anything */

typedef Place { byte word[3] };     /* 0: header; a word is its attempt's number plus one */
Place place[2];
byte place_of[2];
bool posted[2], completed[2];
bool device_ended[2];               /* nothing of it is written any more */
bool ended[2];                      /* and the lane knows it */
byte written[2];                    /* bit i: word i */
bool sees_pending;                  /* pending a moment ago; without verdict_cas or landing_mark */

/* Attempt 0 is the writes of a peer that has the rkey of a landing place: it may repeat a write. */
#ifdef push
#define PUSHED(a) (a == 0)
#else
#define PUSHED(a) false
#endif
#ifdef copied                       /* attempt 0 is a copy by a CPU thread, as on shm */
#define COPIED(a) (a == 0)
#else
#define COPIED(a) false
#endif

#define OWNS(a, p) (posted[a] && !ended[a] && !COPIED(a) && place_of[a] == p)
#define OWNED(p) (OWNS(0, p) || OWNS(1, p))

inline write(a, i) {
    printf("attempt %d: writes word %d of place %d\n", a, i, place_of[a]);
    assert(!released[place_of[a]]);                                     /* I4 */
    assert(!(verdict == READY && ready_at == place_of[a] + 1));         /* I4, and I1 */
    place[place_of[a]].word[i] = a + 1;
    written[a] = written[a] | (1 << i)
}

/* Rule 20: with its payload in GPU memory, a READ may complete before its payload is there. */
#define LANDS(a, i) d_step { posted[a] && !device_ended[a] && (PUSHED(a) || !(written[a] & (1 << i))) -> write(a, i) }

proctype wire(byte a) {
    do
    :: LANDS(a, 0)
    :: LANDS(a, 1)
    :: LANDS(a, 2)
    :: d_step { posted[a] && !completed[a] && !device_ended[a] && (written[a] & 1) -> completed[a] = true;
        printf("attempt %d: completes\n", a) }
    :: d_step { posted[a] && !completed[a] && !device_ended[a] && written[a] == 0 && !PUSHED(a) -> completed[a] = true; device_ended[a] = true;
        printf("attempt %d: completes, and has written nothing\n", a) }
    od
}

/* Rule 19: a CPU copies a chunk at a time, and marks the page before each. */
proctype copier(byte a) {
    byte i = 0;
    do
    :: i < 3 ->
        d_step { posted[a] && verdict == PENDING ->
#ifndef no_landing_mark
            verdict = COPYING;
#endif
            printf("copier: copies word %d\n", i) };
        d_step { write(a, i); i++;
#ifndef no_landing_mark
            verdict = PENDING
#endif
        }
    :: d_step { i == 3 && !completed[a] -> completed[a] = true; device_ended[a] = true; printf("attempt %d: completes\n", a) }
    od
}

#ifndef no_one_landing_one_attempt
#define PLACE_FOR(a) a
#else
#define PLACE_FOR(a) 0
#endif
#ifndef no_zero_landing
#define ZERO(p) place[p].word[0] = 0
#else
#define ZERO(p) skip
#endif
#define POST(a) d_step { !posted[a] && verdict == PENDING && checked == 0 -> posted[a] = true; place_of[a] = PLACE_FOR(a); ZERO(place_of[a]); \
    reached(a_hedge, a == 1 && posted[0] && !ended[0]); printf("lane: posts attempt %d to place %d\n", a, place_of[a]) }

#ifndef no_gpu_flush
#define FLUSHED(a) (written[a] == 7 || device_ended[a])
#else
#define FLUSHED(a) true
#endif
#ifndef no_push_ended_by_invalidation
#define ENDS_BY_COMPLETION(a) !PUSHED(a)
#else
#define ENDS_BY_COMPLETION(a) true
#endif
#define POLL(a) d_step { completed[a] && !ended[a] && FLUSHED(a) && ENDS_BY_COMPLETION(a) -> ended[a] = true; \
    printf("lane: polls the completion of attempt %d\n", a) }
/* The queue pair is put in error and drained, or the landing's rkey invalidated. */
#define END(a) d_step { posted[a] && !ended[a] && !COPIED(a) -> device_ended[a] = true; ended[a] = true; \
    reached(an_attempt_ended_by_the_client, true); printf("lane: ends attempt %d\n", a) }

#ifndef no_ready_needs_all_ended
#define MAY_CHECK(p) (!OWNED(p))
#else
#define MAY_CHECK(p) true
#endif
#define BROUGHT_TO(p) ((ended[0] && place_of[0] == p) || (ended[1] && place_of[1] == p))
#define WHOLE(p) (place[p].word[0] != 0 && place[p].word[1] == place[p].word[0] && place[p].word[2] == place[p].word[0])
#define CHECK(p) d_step { verdict == PENDING && checked == 0 && BROUGHT_TO(p) && MAY_CHECK(p) && WHOLE(p) -> checked = p + 1; \
    printf("check: place %d is whole\n", p) }

/* A held place is released when all attempts on it have ended. */
#define RELEASE(p) d_step { (verdict == RECOMPUTE || verdict == READY && ready_at != p + 1) && !released[p] && !OWNED(p) -> released[p] = true; \
    reached(a_held_place_released_later, verdict == RECOMPUTE); printf("lane: releases place %d\n", p) }
#ifndef no_hold_until_ended
#define RELEASED_BY_VERDICT(p) (!OWNED(p))
#else
#define RELEASED_BY_VERDICT(p) true
#endif

/* One step: only the lane's thread posts and ends attempts, so no place changes its owner between
   the verdict and its report on the places. */
inline recompute() {
    assert(verdict == PENDING);                                         /* one verdict */
    verdict = RECOMPUTE;
    released[0] = RELEASED_BY_VERDICT(0);
    released[1] = RELEASED_BY_VERDICT(1);
    reached(a_place_held, !released[0]);
    reached(a_place_released_by_its_verdict, released[0]);
    printf("lane: the deadline: recompute; released: place 0 %d, place 1 %d\n", released[0], released[1])
}

proctype lane() {
    do
    :: POST(0)
    :: POST(1)
    :: POLL(0)
    :: POLL(1)
    :: END(0)
    :: END(1)
#ifndef no_verdict_cas
    :: d_step { verdict == PENDING -> recompute() }
#else
    :: d_step { verdict == PENDING && !sees_pending -> sees_pending = true; printf("lane: the deadline, and no verdict yet\n") }
    :: d_step { sees_pending -> sees_pending = false; recompute() }
#endif
    :: RELEASE(0)
    :: RELEASE(1)
    od
}

#ifndef no_verdict_cas
#define MAY_GIVE (verdict == PENDING)
#else
#define MAY_GIVE true
#endif
proctype check() {
    do
    :: CHECK(0)
    :: CHECK(1)
    :: d_step { checked != 0 && MAY_GIVE ->
        printf("check: ready at place %d\n", checked - 1);
        assert(verdict == PENDING);                                     /* one verdict */
        /* I2: not an earlier fetch's bytes */
        assert(written[place[checked - 1].word[0] - 1] & 1);
        assert(WHOLE(checked - 1));                                     /* I1 */
        reached(ready, true);
        reached(ready_at_the_hedges_place, checked == 2);
        verdict = READY; ready_at = checked; checked = 0 }
    :: d_step { checked != 0 && (verdict == RECOMPUTE || verdict == READY) && MAY_GIVE == false ->
        reached(a_check_too_late, true);
        checked = 0 }
    od
}

init {
    atomic {
        /* Place 0 still has the page's bytes that an earlier fetch brought from the same node. */
        d_step {
            place[0].word[0] = 1; place[0].word[1] = 1; place[0].word[2] = 1
        };
#ifdef copied
        run copier(0);
#else
        run wire(0);
#endif
        run wire(1); run lane(); run check()
    }
}
