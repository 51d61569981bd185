/* The state of three nodes, two replicas of one key, and the epoch key in etcd. */

#ifndef EPOCHS
#define EPOCHS 3                    /* two epoch changes; 4: three */
#endif
#ifndef PUTS
#define PUTS 3                      /* after the first, acknowledged at the start; at most 3 */
#endif

#define MEMBER(n, e)  ((members[e] >> (n)) & 1)
/* Rendezvous order is 0, 1, 2: set(K, e) is the first two members, the primary the first. */
#define SET(e)        (members[e] == 7 -> 3 : members[e])
#define IN_SET(n, e)  ((SET(e) >> (n)) & 1)
#define PRIMARY(n, e) (MEMBER(n, e) && (members[e] & ((1 << (n)) - 1)) == 0)
#define OTHERS(n, e)  (SET(e) & ~(1 << (n)))
#define OTHER(n, e)   (OTHERS(n, e) >> 1)           /* the other of the set, as a node's number */
#define SESSION(p, r) ((p) + (r) - 1)               /* 0 to 1, 0 to 2, 1 to 2: no others */

/* Rule 7: version = epoch, then a counter. The counter here is the number of the put, which has the
   same order within an epoch, where one node counts. It tells the puts apart in the assertions. */
#ifndef no_epoch_in_version
#define NEWER(a, b)      ((a) > (b))
#define VERSION(n, put)  (4 * epoch[n] + put)
#else
#define NEWER(a, b)      ((a) / 4 > (b) / 4)
#define VERSION(n, put)  (4 * counter[n] + put)
byte counter[3];
#endif
#define JUST_BELOW(v)    ((v) - 1)
#define FIRST 4                     /* epoch 1, put 0 */
#ifdef removes
#define IS_REMOVE(v)     ((v) % 4 == PUTS)          /* the last put is a remove */
#else
#define IS_REMOVE(v)     false
#endif

/* The epoch key, and time. */
byte members[EPOCHS + 1];           /* members[e]: bit n is node n */
byte now_epoch = 1;                 /* what a linearizable read of the epoch key answers */
/* V has passed since epoch ended + 1 was replaced: no view of it, nor of those before, is valid. */
byte ended;
byte confirmed[EPOCHS + 1];         /* bit n: node n wrote confirmed = e */

/* The nodes. A page is its version; 0 is none. */
byte epoch[3] = 1;                      /* the epoch that the node has entered */
byte born[3] = 1;                       /* the epoch in which its incarnation joined, its name */
byte held[3];                       /* published, live */
byte unkilled;                      /* bit n: what node n holds is no more its own, nor killed */
byte floor_[3];                     /* rule 11 */
/* At the primary: the last of its puts that all of the set have applied; 0 if acknowledged. */
byte applied[3];
#if defined(no_live_word) || defined(no_live_word_before_ack)
byte stale[3];                      /* superseded or evicted, and its live word not zeroed (yet) */
#define STALE(n) stale[n]
#else
#define STALE(n) 0
#endif
#ifdef fills
byte bytes[3];                      /* not of the set any more, dead, but may serve fills */
byte fill_epoch, fill_version, fill_to;             /* one fill on its way, outside every stream */
#endif

chan repl[3] = [PUTS] of { byte, byte };            /* REPL: epoch, version */
byte puts;

/* The outcomes that the world was told. */
byte acked = FIRST;                 /* the highest acknowledged version */

byte e_, v_;                        /* for use within one step; 0 between steps */
