/* Fetches for the larger searches: each begins, lands and is accepted in one step. No violation is
   lost by it. What is acknowledged only grows, and so do ended epochs. A fetch that by fetch.pml
   accepts a page at some moment could have begun just before that moment, with as much acknowledged
   or more, and its page could have landed and been accepted there. So it is enough that no state
   lets a client accept a page that it must not. */

#define MAY_READ(e, n) ((e) > ended && (e) <= now_epoch && IN_SET(n, e) && born[n] <= (e) && held[n] != 0)
#define FETCH(e, n) \
    :: d_step { MAY_READ(e, n) && (NEWER(acked, held[n]) || acked / 4 > (e)) -> \
        printf("client: accepts version %d.%d from node %d with its view of epoch %d; %d.%d is acknowledged\n", \
            held[n] / 4, held[n] % 4, n, e, acked / 4, acked % 4); \
        assert(false) }

proctype fetch() {
    do
    FETCH(1, 0) FETCH(1, 1) FETCH(1, 2)
    FETCH(2, 0) FETCH(2, 1) FETCH(2, 2)
    FETCH(3, 0) FETCH(3, 1) FETCH(3, 2)
#if EPOCHS > 3
    FETCH(4, 0) FETCH(4, 1) FETCH(4, 2)
#endif
    od
}
