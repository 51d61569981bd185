/* reached(name, condition) marks a condition that a search must meet, or it has proved nothing. The
   verifier prints the name when it first meets it. */

#ifdef coverage
#define reached(name, condition) \
    if \
    :: condition -> c_code { static int met; if (!met) { met = 1; printf("reached " #name "\n"); } } \
    :: else \
    fi
#else
#define reached(name, condition) skip
#endif
