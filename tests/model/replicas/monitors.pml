/* The invariants, told by the true order of events and not by the checks of the protocol. */

/* I2: a fetch that began after a put's acknowledgement gets the bytes of it or a newer put. */
#ifndef unchecked_I2
#define CHECK_I2(v) assert(NEWER(v, needed) || v == needed)
#else
#define CHECK_I2(v) skip
#endif

/* I5: after an acknowledgement in an epoch, no node acknowledges a put in an earlier epoch, and no
   client accepts a page by an earlier epoch's view: the losing side of a partition does neither.
   acked / 4 is the highest epoch that acknowledged, as versions begin with it. */
#ifndef unchecked_I5
#define CHECK_I5(e) assert((e) >= acked / 4)
#else
#define CHECK_I5(e) skip
#endif

#define CHECK_ACCEPTED(v)        CHECK_I2(v); CHECK_I5(view)
#define CHECK_ACKNOWLEDGEMENT(n) CHECK_I5(epoch[n])
