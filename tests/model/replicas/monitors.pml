/* The invariants, told by the true order of events and not by the checks of the protocol. */

/* I2: a fetch that began after the acknowledgement of a put gets that put's bytes, or a newer version's. */
#ifndef unchecked_I2
#define CHECK_I2(v) assert(NEWER(v, needed) || v == needed)
#else
#define CHECK_I2(v) skip
#endif

/* I5: once a put was acknowledged in an epoch, nobody acknowledges one in an earlier epoch, or accepts a page by an earlier epoch's view: whoever
   is on the losing side of a partition does neither. acked / 4 is the highest epoch that acknowledged, as versions begin with it. */
#ifndef unchecked_I5
#define CHECK_I5(e) assert((e) >= acked / 4)
#else
#define CHECK_I5(e) skip
#endif

#define CHECK_ACCEPTED(v)        CHECK_I2(v); CHECK_I5(view)
#define CHECK_ACKNOWLEDGEMENT(n) CHECK_I5(epoch[n])
