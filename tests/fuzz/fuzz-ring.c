/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A ring of which every byte is hostile, and the decoder behind it. The input is positions, number of
 * events, and the data area.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decode.h"
#include "fuzz.h"
#include "ring.h"

#define SIZE 4096U
#define HEAD 17U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        size_t page = sysconf(_SC_PAGESIZE);
        _Alignas(8) uint8_t record[DECODE_RECORD_MAX];
        uint8_t *consumer, *producer;
        uint64_t sum = 0;
        Ring *ring;
        int n;

        if (size < HEAD)
                return 0;
        consumer = calloc(1, page);
        producer = calloc(1, page + SIZE);
        if (!consumer || !producer)
                abort();
        memcpy(consumer, data, 8);
        memcpy(producer, data + 8, 8);
        memcpy(producer + page, data + HEAD, size - HEAD < SIZE ? size - HEAD : SIZE);
        if (ring_new_from_memory(&ring, consumer, producer, SIZE) < 0)
                abort();
        while ((n = ring_read(ring, record, sizeof(record))) > 0) {
                RingsideRecord r;

                if (decode_record(record, n, data[16] & 7, &r) != DECODE_OK)
                        continue;
                /* All that a record points to can be read. */
                if (r.type == RINGSIDE_STACK)
                        for (unsigned i = 0; i < r.stack.n_frames; i++)
                                sum += r.stack.frames[i];
                else if (r.type == RINGSIDE_PROCESS)
                        sum += strlen(r.process.comm);
                else if (r.type == RINGSIDE_MAPPING)
                        sum += strlen(r.mapping.path) + r.mapping.end - r.mapping.start;
        }
        /* So that none of the reads is left out. */
        __asm__ volatile("" : : "r"(sum));
        ring_free(ring);
        free(producer);
        free(consumer);
        return 0;
}
