/* One fetch after another by clients of any kind: with any view that has not ended, with a location
   cached at any time. A location has node, slot and version. A READ finds live in a node only pages
   that the node published there once, so a client may have cached any of them. A client that takes
   no step is paused. */

byte view;                          /* the epoch of the fetch's view; 0: no fetch */
byte needed;                        /* what was acknowledged when the fetch began */
byte landed;
#ifdef no_header_reread_for_local
byte kept;                         /* a page that landed for an earlier fetch */
#endif

/* Rule 12: a view comes from a linearizable read. So a view of epoch e began while e was current,
   and has ended when V has passed since. A node tells clients of its own view, which ends for them
   when it ends for the node: it is one of these. Counted from when the client asked, and not from
   when the node read, it could begin as the node's own ends, and last another V. */
#if defined(no_linearizable_view)
#define UNENDED(e) true
#elif defined(no_view_age)
#define UNENDED(e) ((e) + 1 > ended)
#else
#define UNENDED(e) ((e) > ended)
#endif
#if !defined(no_view_checked_at_completion) && !defined(no_view_checked_after_begin)
#define VALID_AT_COMPLETION UNENDED(view)
#else
#define VALID_AT_COMPLETION true
#endif
/* Views name incarnations. */
#ifndef no_incarnation_in_view
#define READABLE(n) (IN_SET(n, view) && born[n] <= view)
#else
#define READABLE(n) IN_SET(n, view)
#endif

inline end_fetch() { view = 0; needed = 0; landed = 0 }

inline accept(v) {
    printf("client: accepts version %d.%d; %d.%d was acknowledged when the fetch began\n", v / 4, v % 4, needed / 4, needed % 4);
    CHECK_ACCEPTED(v);
    end_fetch()
}

#ifdef no_view_checked_after_begin
byte looked;                        /* the client's view that was valid before the fetch began */
#define LOOK(e) d_step { (e) <= now_epoch && (e) > ended -> looked = (e); printf("client: sees that its view of epoch %d is valid\n", looked) }
#define CHECKED(e) (looked == (e))
#else
#define CHECKED(e) UNENDED(e)
#endif
#define BEGIN(e) d_step { view == 0 && (e) <= now_epoch && CHECKED(e) -> view = (e); needed = acked; \
    printf("client: begins a fetch with its view of epoch %d\n", view) }
#define LAND(n) d_step { view != 0 && landed == 0 && READABLE(n) && held[n] != 0 -> landed = held[n]; \
    reached(a_left_out_node_answers, !MEMBER(n, now_epoch)); \
    printf("client: version %d.%d of node %d lands\n", landed / 4, landed % 4, n) }
#define LAND_STALE(n) d_step { view != 0 && landed == 0 && READABLE(n) && STALE(n) != 0 -> landed = STALE(n); \
    printf("client: version %d.%d of node %d lands, which is superseded\n", landed / 4, landed % 4, n) }

proctype fetch() {
    do
    :: BEGIN(1)
    :: BEGIN(2)
    :: BEGIN(3)
#if EPOCHS > 3
    :: BEGIN(4)
#endif
#ifdef no_view_checked_after_begin
    :: LOOK(1)
    :: LOOK(2)
    :: LOOK(3)
#endif
    :: LAND(0)
    :: LAND(1)
    :: LAND(2)
#if defined(no_live_word) || defined(no_live_word_before_ack)
    :: LAND_STALE(0)
    :: LAND_STALE(1)
    :: LAND_STALE(2)
#endif
    :: d_step { landed != 0 && VALID_AT_COMPLETION ->
        reached(a_page_of_the_last_epoch_accepted, landed / 4 == EPOCHS);
        reached(a_view_behind_the_epoch_accepted, view < now_epoch);
#ifdef no_header_reread_for_local
        kept = landed;
#endif
        accept(landed) }
    :: d_step { landed != 0 && !VALID_AT_COMPLETION ->
        reached(a_landed_page_refused_for_its_view, true);
        reached(a_superseded_page_refused_for_its_view, NEWER(acked, landed));
        end_fetch() }
#ifdef no_header_reread_for_local
    :: d_step { view != 0 && landed == 0 && kept != 0 -> printf("client: has version %d.%d already\n", kept / 4, kept % 4); accept(kept) }
#endif
    :: d_step { view != 0 && landed == 0 -> end_fetch() }   /* its deadline has come */
    od
}
