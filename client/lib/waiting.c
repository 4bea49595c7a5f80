/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "waiting.h"

#include <string.h>

#include "util.h"

void waiting_done(Waiting *waiting) {
        free(waiting->samples);
        *waiting = (Waiting){};
}

WaitingSample *waiting_get(Waiting *waiting, size_t index) {
        return &waiting->samples[(waiting->first + index) & (waiting->allocated - 1)];
}

static int grow(Waiting *waiting) {
        size_t allocated = MAX(64, waiting->allocated * 2);
        WaitingSample *samples = reallocarray(NULL, allocated, sizeof(*samples));

        if (!samples)
                return -ENOMEM;
        for (size_t i = 0; i < waiting->n; i++)
                samples[i] = *waiting_get(waiting, i);
        free(waiting->samples);
        waiting->samples = samples;
        waiting->allocated = allocated;
        waiting->first = 0;
        return 0;
}

int waiting_push(Waiting *waiting, const WaitingSample *sample) {
        int r;

        if (waiting->n == WAITING_MAX)
                return -ENOBUFS;
        if (waiting->n == waiting->allocated) {
                r = grow(waiting);
                if (r < 0)
                        return r;
        }
        *waiting_get(waiting, waiting->n++) = *sample;
        return 0;
}

void waiting_pop(Waiting *waiting) {
        waiting->first = (waiting->first + 1) & (waiting->allocated - 1);
        waiting->n--;
}
