/* Eviction, and the fills that bring a page to a replica that lacks it: rule 11. */

#ifdef evictions
inline evict(n) {
    printf("node %d: evicts version %d.%d\n", n, held[n] / 4, held[n] % 4);
    reached(an_acknowledged_page_evicted, held[n] == acked);
    raise_floor(n, held[n]);
    forget(n)
}
#endif

#ifdef fills
/* The node drops a page found corrupt. The floor rises to just below it, so the same version may be
   filled again. */
inline drop_corrupt(n) {
    printf("node %d: drops version %d.%d, which is corrupt\n", n, held[n] / 4, held[n] % 4);
    raise_floor(n, JUST_BELOW(held[n]));
    forget(n)
}

/* By a node that holds the page, or did until it entered this epoch. */
inline send_fill(n, r, v) {
    fill_epoch = epoch[n];
    fill_version = v;
    fill_to = r;
    printf("node %d: sends version %d.%d to fill node %d in epoch %d\n", n, v / 4, v % 4, r, fill_epoch)
}

inline take_fill(n) {
    if
#ifndef no_epoch_in_messages
    :: fill_epoch != epoch[n] -> printf("node %d: refuses a fill of epoch %d, being in epoch %d\n", n, fill_epoch, epoch[n])
#endif
    :: !IN_SET(n, epoch[n])
#ifndef no_newer_only
    :: IN_SET(n, epoch[n]) && !NEWER(fill_version, held[n])
#endif
#ifndef no_floor
    :: IN_SET(n, epoch[n]) && NEWER(fill_version, held[n]) && !NEWER(fill_version, floor_[n]) ->
        reached(a_fill_below_the_floor, true);
        printf("node %d: ignores the fill, which is not above its floor\n", n)
#endif
    :: else ->
        printf("node %d: is filled with version %d.%d\n", n, fill_version / 4, fill_version % 4);
        reached(a_fill_taken, true);
        reached(a_fill_of_the_same_version_after_a_corruption, fill_version == floor_[n] + 1);
        apply(n, fill_version)
    fi;
    fill_epoch = 0; fill_version = 0; fill_to = 0
}

#define SEND_BYTES(n, r) d_step { fill_epoch == 0 && bytes[n] != 0 && !IN_SET(n, epoch[n]) && IN_SET(r, epoch[n]) -> \
        reached(a_fill_from_outside_the_set, true); send_fill(n, r, bytes[n]) }
#define FILL_STEPS \
    :: d_step { fill_epoch == 0 && held[n] != 0 && IN_SET(n, epoch[n]) && OTHERS(n, epoch[n]) != 0 -> \
        send_fill(n, OTHER(n, epoch[n]), held[n]) } \
    :: SEND_BYTES(n, 0) \
    :: SEND_BYTES(n, 1) \
    :: SEND_BYTES(n, 2) \
    :: d_step { fill_epoch != 0 && fill_to == n -> take_fill(n) } \
    :: d_step { fill_epoch != 0 -> fill_epoch = 0; fill_version = 0; fill_to = 0 } /* lost */ \
    :: d_step { held[n] != 0 -> drop_corrupt(n) }
#endif
