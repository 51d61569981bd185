/* I2 and I5: three nodes, two replicas, one key, epoch changes. Macros choose a world: EPOCHS,
   PUTS, evictions, fills, removes, joining (node 0 may be out at first), fetch_at_once. no_ and the
   name of a guard switch it off. */

#include "reached.pml"
#include "replicas/state.pml"
#include "replicas/monitors.pml"
#include "replicas/repair.pml"
#include "replicas/node.pml"
#include "replicas/membership.pml"
#ifdef fetch_at_once
#include "replicas/fetch_at_once.pml"
#else
#include "replicas/fetch.pml"
#endif

init {
    atomic {
#ifdef joining
        if
        :: members[1] = 7
        :: members[1] = 6
        fi;
#else
        members[1] = 7;
#endif
        confirmed[1] = members[1];
        d_step {
            if
            :: MEMBER(0, 1) -> held[0] = FIRST; held[1] = FIRST
            :: else -> held[1] = FIRST; held[2] = FIRST
            fi
        };
#ifdef no_epoch_in_version
        if
        :: MEMBER(0, 1) -> counter[0] = 1
        :: else -> counter[1] = 1
        fi;
#endif
        run node(0); run node(1); run node(2);
        run membership();
        run fetch()
    }
}
