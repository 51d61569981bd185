/* reached(name, condition) marks what a search must meet somewhere, or it has proved nothing: the verifier prints the name when it first does. */

#ifdef coverage
#define reached(name, condition) \
    if \
    :: condition -> c_code { static int met; if (!met) { met = 1; printf("reached " #name "\n"); } } \
    :: else \
    fi
#else
#define reached(name, condition) skip
#endif
