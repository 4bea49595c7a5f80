/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Does little but call a library's function that does even less. Bound at the first call; with LD_BIND_NOT=1 in the
 * environment at every call, by the dynamic linker.
 */

#include "plt.h"

#define ROUNDS 1000000

static CHAINED uint64_t plt_caller(uint64_t x) {
        for (unsigned i = 0; i < ROUNDS; i++)
                x = chain_after(plt_function(x));
        return x;
}

int main(int argc, char **argv) {
        double seconds = spin_seconds(argc, argv);

        chain_wait();
        return spin_end(chain_repeat(seconds, plt_caller));
}
