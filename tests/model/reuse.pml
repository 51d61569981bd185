/* I1 with the CRC off: one slot that pages of two keys use one after another, and a client that
   reads it by a location cached at any time. A page is its number n: key n % 2, version n, and n in
   each word of its payload. The words of a READ come in any order, each at any time between post
   and completion. Time is two events: L has passed since the READ was posted, L(1 + epsilon) has
   passed since the slot was stamped.

   With two_reads, one READ reads the header and another the payload, one posted after the other,
   in either order. The client judges the page once both have completed, and L counts from the post
   of the first. */

#include "reached.pml"

#ifndef PAGES
#define PAGES 4
#endif
#define KEY 0
#define VERSION 1
#define LIVE 2
#define PAYLOAD 3                   /* and 4 */
#define WORDS 5

byte slot[WORDS];
byte published;                     /* the page that the index names */
byte learnable;                     /* pages up to this one were named by the index once */
bool stamped, cooled;

byte expected;                      /* the page that a READ is for; 0: none is on its way */
byte words_read;                    /* bit i: word i */
bool header_matches, payload_matches;
bool lease_over;                    /* L has passed since the READ was posted */
bool posted_before_stamp;
byte posted;                        /* bit i: a READ that brings word i was posted */
#ifdef two_reads
bool last_lease_over;               /* the same two of the READ that was posted last */
bool last_posted_before_stamp;
#endif

#define HEADER_WORDS 7
#define PAYLOAD_WORDS 24
#define ALL_WORDS 31
#define WORD(i, n) (i == KEY -> (n) % 2 : (n))

inline stamp() {
    stamped = true; cooled = false;
    posted_before_stamp = (expected != 0);
#ifdef two_reads
    last_posted_before_stamp = (posted == ALL_WORDS);
#endif
    printf("node: stamps the slot\n")
}

/* A slot's life: fill, publish, free, wait. Each word is a step of its own. */
proctype node() {
    byte page = 1, filled = 0;
    do
    :: page <= PAGES ->
        do                          /* APPLY: fill, live word last */
        :: d_step { !(filled & 1) -> slot[KEY] = WORD(KEY, page); filled = filled | 1; printf("node: writes the key of page %d\n", page) }
        :: d_step { !(filled & 2) -> slot[VERSION] = page; filled = filled | 2; printf("node: writes the version of page %d\n", page) }
        :: d_step { !(filled & 4) -> slot[PAYLOAD] = page; filled = filled | 4; printf("node: writes the first half of page %d\n", page) }
        :: d_step { !(filled & 8) -> slot[PAYLOAD + 1] = page; filled = filled | 8; printf("node: writes the second half of page %d\n", page) }
#ifdef no_live_word_last
        :: d_step { slot[LIVE] != page -> slot[LIVE] = page; printf("node: sets the live word of page %d\n", page) }
#endif
        :: filled == 15 -> break
        od;
        atomic { filled = 0; slot[LIVE] = page; printf("node: sets the live word of page %d\n", page) };
        d_step { published = page; learnable = page; printf("node: publishes page %d\n", page);
            reached(a_slot_reused, page > 1) };
#ifdef no_stamp_after_unpublish
        d_step { stamp() };
#endif
        /* Superseded, removed or evicted. */
        d_step { published = 0; printf("node: unpublishes page %d\n", page) };
#ifndef no_kill_on_free
        d_step { slot[LIVE] = 0; printf("node: zeroes the live word of page %d\n", page) };
#endif
#ifndef no_stamp_after_unpublish
        d_step { stamp() };
#endif
#ifndef no_reuse_wait
        d_step { cooled -> stamped = false };
#endif
        page++
    :: else -> break
    od
}

#ifdef two_reads
#define LAST_MAY_LAND (posted == ALL_WORDS && last_posted_before_stamp && !last_lease_over)
#else
#define LAST_MAY_LAND false
#endif

/* A READ that was posted before the stamp is under way for longer than the slot has cooled. */
proctype time() {
    do
#ifdef two_reads
    :: d_step { posted == ALL_WORDS && lease_over && !last_lease_over -> last_lease_over = true;
        printf("time: L has passed since the last READ was posted\n") }
#endif
    :: d_step { expected != 0 && !lease_over -> lease_over = true; printf("time: L has passed since the READ was posted\n") }
    :: d_step { stamped && !cooled && !(expected != 0 && posted_before_stamp && !lease_over) && !LAST_MAY_LAND -> cooled = true;
        printf("time: L(1+epsilon) has passed since the stamp\n") }
    od
}

inline end_read() {
    expected = 0; posted = 0; words_read = 0; header_matches = false; payload_matches = false; lease_over = false; posted_before_stamp = false;
#ifdef two_reads
    last_lease_over = false; last_posted_before_stamp = false
#endif
}

#define POST_OF(n, words) d_step { expected == 0 && (n) <= learnable -> expected = n; posted = words; header_matches = true; \
    payload_matches = true; reached(a_location_of_a_freed_page_used, published != (n)); printf("client: posts a READ for page %d\n", expected) }
#ifdef two_reads
#define POST(n) POST_OF(n, HEADER_WORDS) :: POST_OF(n, PAYLOAD_WORDS)
#else
#define POST(n) POST_OF(n, ALL_WORDS)
#endif
#ifndef no_exact_header
#define HEADER_SAYS(i) (slot[i] == WORD(i, expected))
#else
#define HEADER_SAYS(i) (i != LIVE || slot[i] != 0)
#endif
#define READ_HEADER(i) d_step { (posted & (1 << (i))) && !(words_read & (1 << (i))) -> words_read = words_read | (1 << (i)); \
    header_matches = header_matches && HEADER_SAYS(i); printf("client: word %d lands, it is of page %d\n", i, slot[i]) }
#define READ_PAYLOAD(i) d_step { (posted & (1 << (i))) && !(words_read & (1 << (i))) -> words_read = words_read | (1 << (i)); \
    payload_matches = payload_matches && slot[i] == expected; printf("client: word %d lands, it is of page %d\n", i, slot[i]) }
#ifdef no_lease_per_read
#define IN_TIME true
#else
#ifdef no_lease_from_first_post
#define IN_TIME !last_lease_over
#else
#define IN_TIME !lease_over
#endif
#endif

proctype client() {
    do
    :: POST(1)
    :: POST(2)
    :: POST(3)
    :: POST(4)
#ifdef two_reads
    :: d_step { posted != 0 && posted != ALL_WORDS -> reached(a_second_read_posted_after_a_stamp, posted_before_stamp);
        posted = ALL_WORDS; printf("client: posts the other READ for page %d\n", expected) }
#endif
    :: READ_HEADER(KEY)
    :: READ_HEADER(VERSION)
    :: READ_HEADER(LIVE)
    :: READ_PAYLOAD(PAYLOAD)
    :: READ_PAYLOAD(PAYLOAD + 1)
    :: d_step { words_read == ALL_WORDS && header_matches && IN_TIME ->
        reached(a_page_accepted, true);
        reached(a_page_accepted_that_was_freed_meanwhile, published != expected);
        printf("client: accepts page %d\n", expected);
        assert(payload_matches);
        end_read() }
    :: d_step { words_read == ALL_WORDS && !(header_matches && IN_TIME) ->
        reached(wrong_bytes_refused_for_the_lease, header_matches && !payload_matches);
        reached(wrong_bytes_refused_for_the_header, !lease_over && !payload_matches);
        end_read() }
    od
}

init { atomic { run node(); run time(); run client() } }
