// SPDX-License-Identifier: LGPL-2.1-or-later

// Exceptions through ten frames, each of which has something to clean up: most of the time is spent on finding out
// where they are caught, and getting there.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#if defined(__clang__)
#define CHAINED __attribute__((noinline))
#else
#define CHAINED __attribute__((noipa))
#endif

namespace {

volatile uint64_t cleaned;

struct Guard {
        ~Guard() { cleaned = cleaned + 1; }
};

double cpu_seconds() {
        timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

}

#define THROUGH(name, next)                                                                                            \
        extern "C" CHAINED uint64_t name(uint64_t x) {                                                                 \
                Guard guard;                                                                                           \
                return next(x) + cleaned;                                                                              \
        }

extern "C" CHAINED uint64_t through_10(uint64_t x) {
        Guard guard;

        if (x != 0)
                throw x;
        return cleaned;
}

THROUGH(through_9, through_10)
THROUGH(through_8, through_9)
THROUGH(through_7, through_8)
THROUGH(through_6, through_7)
THROUGH(through_5, through_6)
THROUGH(through_4, through_5)
THROUGH(through_3, through_4)
THROUGH(through_2, through_3)
THROUGH(through_1, through_2)

extern "C" CHAINED uint64_t catches(uint64_t x) {
        try {
                return through_1(x);
        } catch (uint64_t thrown) {
                return thrown + 2;
        }
}

extern "C" CHAINED uint64_t catches_often(uint64_t x) {
        for (unsigned i = 0; i < 100; i++)
                x = catches(x | 1);
        return x;
}

int main(int argc, char **argv) {
        const double seconds = argc == 2 ? std::strtod(argv[1], nullptr) : 0;
        const timespec moment = {0, 300000000};
        uint64_t x = 1;

        if (!(seconds > 0 && seconds <= 3600))
                return 2;
        nanosleep(&moment, nullptr);
        for (double until = cpu_seconds() + seconds; cpu_seconds() < until;)
                x = catches_often(x);
        return x == 42 ? 3 : 0;
}
