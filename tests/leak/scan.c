/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Looks for secrets in bytes: 64-bit values in given ranges, at every offset, aligned or not.
 *
 *      leak-scan SECRETS WORDS file PATH...
 *      leak-scan SECRETS WORDS ring FD SIZE SECONDS DUMP [NAME FD SIZE]...
 *
 * WORDS: where to write which aligned 32-bit words there were, each once and 0 not, for leak-halves.
 * SECRETS: lines of "START END NAME", hexadecimal. Prints "hit NAME VALUE WHERE" for each that is found (the first
 * few of a name in full, all in the totals) and "scanned BYTES". On a ring it behaves as the worst of readers: it
 * watches the pages that are being filled at this moment, over and over, takes nothing for granted of positions and
 * record heads, and now and then sweeps all that was ever written, and what stands beside the positions. It also is
 * the ring's reader, and copies what it reads to DUMP, so that the ring never runs full. Other memory that is handed
 * out is looked at as often, a piece at a time, and as a whole at the end: "looked NAME LOOKS CHANGES HITS" says at how
 * many pieces, how often there was something else than at the look before, and how many secrets were in there.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "util.h"

#define SECRETS_MAX 65536
#define SHOWN_MAX 5
/* Of the ring, before and behind the producer's position. */
#define BEHIND 4096
#define AHEAD 8192
#define LOOKS_PER_SWEEP 20000
/* So near at every offset each time; all of it only now and then, for that takes as long as several looks. */
#define NEAR 256
#define LOOKS_PER_CLOSE_LOOK 16
#define WORDS_MAX (1u << 23)
#define RECENT_MAX 4096
#define MEMORIES_MAX 4
/* Of other memory: what is looked at in turn. */
#define PIECE 1024

typedef struct Secret {
        uint64_t start, end;
        char name[32];
        uint64_t hits;
} Secret;

/* A set, and of what was added last: most of a ring's page is what it was a moment ago. */
typedef struct Words {
        uint32_t *table;
        size_t n;
        uint32_t recent[RECENT_MAX];
} Words;

typedef struct Scan {
        Words words;
        Secret *secrets;
        size_t n;
        uint64_t lowest, highest;
        uint64_t scanned, hits;
} Scan;

static int compare(const void *a, const void *b) {
        const Secret *x = a, *y = b;

        return (x->start > y->start) - (x->start < y->start);
}

static int scan_read_secrets(Scan *scan, const char *path) {
        _cleanup_fclose_ FILE *f = fopen(path, "re");

        scan->secrets = calloc(SECRETS_MAX, sizeof(*scan->secrets));
        if (!f || !scan->secrets)
                return -1;
        while (scan->n < SECRETS_MAX) {
                Secret *s = &scan->secrets[scan->n];

                if (fscanf(f, "%" SCNx64 " %" SCNx64 " %31s", &s->start, &s->end, s->name) != 3)
                        break;
                scan->n++;
        }
        qsort(scan->secrets, scan->n, sizeof(*scan->secrets), compare);
        scan->lowest = scan->n > 0 ? scan->secrets[0].start : UINT64_MAX;
        for (size_t i = 0; i < scan->n; i++)
                scan->highest = MAX(scan->highest, scan->secrets[i].end);
        return scan->n > 0 && scan->n < SECRETS_MAX && feof(f) ? 0 : -1;
}

/* The last range that begins at or below the value; wide ones come first and may hold others, so they are asked too. */
static Secret *scan_find(Scan *scan, uint64_t value) {
        size_t low = 0, high = scan->n;

        if (value < scan->lowest || value >= scan->highest)
                return NULL;
        while (low < high) {
                size_t middle = (low + high) / 2;

                if (scan->secrets[middle].start <= value)
                        low = middle + 1;
                else
                        high = middle;
        }
        /* Few ranges hold others, and none more than there are modules. */
        for (size_t i = low; i-- > 0 && i + 1024 > low;)
                if (value < scan->secrets[i].end)
                        return &scan->secrets[i];
        return NULL;
}

static void scan_value(Scan *scan, uint64_t value, const char *where, uint64_t offset) {
        Secret *s = scan_find(scan, value);

        if (!s)
                return;
        scan->hits++;
        if (s->hits++ < SHOWN_MAX)
                printf("hit %s %" PRIx64 " %s+%" PRIu64 "\n", s->name, value, where, offset);
}

static void words_add(Words *words, uint32_t word) {
        uint32_t hash = word * 0x9e3779b1u, *recent = &words->recent[hash >> 20], at = hash >> 9;

        if (word == 0 || *recent == word)
                return;
        *recent = word;
        while (words->table[at] != 0 && words->table[at] != word)
                at = (at + 1) & (WORDS_MAX - 1);
        if (words->table[at] != 0)
                return;
        words->table[at] = word;
        /* No ring of a test has half as many. */
        if (++words->n > WORDS_MAX / 2)
                abort();
}

static int words_write(const Words *words, const char *path) {
        FILE *f = fopen(path, "we");
        int r = 0;

        for (size_t i = 0; f && i < WORDS_MAX; i++)
                if (words->table[i] != 0 && fwrite(&words->table[i], sizeof(uint32_t), 1, f) != 1)
                        r = -1;
        return f && fclose(f) == 0 ? r : -1;
}

/* The eight bytes at each offset; step 8 for what is looked at very often. */
static void scan_bytes(Scan *scan, const volatile uint8_t *bytes, size_t size, size_t step, const char *where,
                       uint64_t base) {
        for (size_t i = 0; i + sizeof(uint64_t) <= size; i += step) {
                uint64_t value;

                memcpy(&value, (const uint8_t *) bytes + i, sizeof(value));
                if (value >= scan->lowest)
                        scan_value(scan, value, where, base + i);
                if (i % sizeof(value) == 0) {
                        words_add(&scan->words, value);
                        words_add(&scan->words, value >> 32);
                }
        }
        scan->scanned += size;
}

static int scan_file(Scan *scan, const char *path) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat st;
        void *bytes;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -1;
        if (st.st_size == 0)
                return 0;
        bytes = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED)
                return -1;
        scan_bytes(scan, bytes, st.st_size, 1, path, 0);
        return munmap(bytes, st.st_size);
}

typedef struct Ring {
        _Atomic(uint64_t) *consumer;
        const _Atomic(uint64_t) *producer;
        const uint8_t *data; /* twice in a row */
        uint64_t size;
        FILE *dump;
} Ring;

static int ring_map(Ring *ring, int fd, uint64_t size) {
        size_t page = sysconf(_SC_PAGESIZE);
        void *consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        uint8_t *producer = mmap(NULL, page + 2 * size, PROT_READ, MAP_SHARED, fd, page);

        if (consumer == MAP_FAILED || producer == MAP_FAILED)
                return -1;
        ring->consumer = consumer;
        ring->producer = (const void *) producer;
        ring->data = producer + page;
        ring->size = size;
        return 0;
}

/* Takes what is complete, as a reader does (uapi: a record's length is BUSY while it is written). */
static int ring_take(Ring *ring, Scan *scan) {
        uint64_t pos = atomic_load(ring->consumer), end = atomic_load(ring->producer);

        while (pos < end) {
                const _Atomic(uint32_t) *head = (const void *) (ring->data + pos % ring->size);
                uint32_t length = atomic_load(head);

                if (length & BPF_RINGBUF_BUSY_BIT)
                        break;
                length &= ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
                /* The head's own length is the size of an entry in the dump. */
                if (length > ring->size || fwrite(&length, 1, 4, ring->dump) != 4 ||
                    fwrite(ring->data + pos % ring->size + BPF_RINGBUF_HDR_SZ, 1, length, ring->dump) != length)
                        return -1;
                scan_bytes(scan, ring->data + pos % ring->size, BPF_RINGBUF_HDR_SZ + length, 1, "record", pos);
                pos += (length + BPF_RINGBUF_HDR_SZ + 7) / 8 * 8;
        }
        atomic_store(ring->consumer, pos);
        return 0;
}

static void ring_look(Ring *ring, Scan *scan, size_t behind, size_t ahead, size_t step) {
        uint64_t end = atomic_load_explicit(ring->producer, memory_order_relaxed) & ~7ULL;
        uint64_t from = (end + ring->size - behind) % ring->size;

        scan_bytes(scan, ring->data + from, behind + ahead, step, "page", end - behind);
}

/* The rest of these pages is the kernel's, and nothing is to be in it. */
static void ring_look_at_positions(Ring *ring, Scan *scan) {
        size_t page = sysconf(_SC_PAGESIZE);

        scan_bytes(scan, (const volatile uint8_t *) ring->consumer, page, 1, "consumer", 0);
        scan_bytes(scan, (const volatile uint8_t *) ring->producer, page, 1, "producer", 0);
}

/* Counters, tables. */
typedef struct Memory {
        const char *name;
        const uint8_t *bytes;
        uint64_t *sums; /* of each piece, when it was looked at last */
        size_t n;        /* pieces */
        uint64_t looks, changes, hits;
} Memory;

static int memory_map(Memory *memory, const char *name, int fd, size_t size) {
        void *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

        if (bytes == MAP_FAILED || size % PIECE != 0)
                return -1;
        memory->name = name;
        memory->bytes = bytes;
        memory->n = size / PIECE;
        memory->sums = calloc(memory->n, sizeof(*memory->sums));
        return memory->sums ? 0 : -1;
}

static void memory_scan(Memory *memory, Scan *scan, size_t from, size_t size, size_t step) {
        uint64_t hits = scan->hits;

        scan_bytes(scan, memory->bytes + from, size, step, memory->name, from);
        memory->hits += scan->hits - hits;
}

/* The next piece. As with the ring, at every offset only now and then, but each piece. */
static void memory_look(Memory *memory, Scan *scan) {
        size_t i = memory->looks % memory->n, round = memory->looks++ / memory->n;
        uint64_t sum = 0, word;

        memory_scan(memory, scan, i * PIECE, PIECE, round % LOOKS_PER_CLOSE_LOOK == 0 ? 1 : 8);
        for (size_t at = 0; at < PIECE; at += sizeof(word)) {
                memcpy(&word, memory->bytes + i * PIECE + at, sizeof(word));
                sum = sum * 31 + word;
        }
        memory->changes += sum != memory->sums[i];
        memory->sums[i] = sum;
}

static int ring_watch(Ring *ring, Scan *scan, Memory *memories, size_t n_memories, double seconds) {
        struct timespec now;
        double end;

        clock_gettime(CLOCK_MONOTONIC, &now);
        end = now.tv_sec + now.tv_nsec / 1e9 + seconds;
        for (unsigned looks = 0;; looks++) {
                ring_look(ring, scan, NEAR, NEAR, 1);
                ring_look(ring, scan, BEHIND, AHEAD, looks % LOOKS_PER_CLOSE_LOOK == 0 ? 1 : 8);
                for (size_t i = 0; i < n_memories; i++)
                        memory_look(&memories[i], scan);
                if (looks % 64 == 0) {
                        ring_look_at_positions(ring, scan);
                        if (ring_take(ring, scan) < 0)
                                return -1;
                }
                if (looks % LOOKS_PER_SWEEP == 0) {
                        scan_bytes(scan, ring->data, ring->size, 1, "sweep", 0);
                        clock_gettime(CLOCK_MONOTONIC, &now);
                        if (now.tv_sec + now.tv_nsec / 1e9 < end)
                                continue;
                        for (size_t i = 0; i < n_memories; i++)
                                memory_scan(&memories[i], scan, 0, memories[i].n * PIECE, 1);
                        return ring_take(ring, scan);
                }
        }
}

int main(int argc, char *argv[]) {
        Memory memories[MEMORIES_MAX] = {};
        size_t n_memories = 0;
        Scan scan = {};
        Ring ring = {};

        scan.words.table = calloc(WORDS_MAX, sizeof(uint32_t));
        if (argc < 5 || !scan.words.table || scan_read_secrets(&scan, argv[1]) < 0) {
                fprintf(stderr, "leak-scan: no secrets\n");
                return EXIT_FAILURE;
        }
        if (strcmp(argv[3], "file") == 0) {
                for (int i = 4; i < argc; i++)
                        if (scan_file(&scan, argv[i]) < 0) {
                                perror(argv[i]);
                                return EXIT_FAILURE;
                        }
        } else {
                for (int i = 8; i + 2 < argc && n_memories < MEMORIES_MAX; i += 3)
                        if (memory_map(&memories[n_memories++], argv[i], atoi(argv[i + 1]),
                                       strtoull(argv[i + 2], NULL, 0)) < 0) {
                                perror(argv[i]);
                                return EXIT_FAILURE;
                        }
                ring.dump = argc >= 8 ? fopen(argv[7], "we") : NULL;
                if (!ring.dump || ring_map(&ring, atoi(argv[4]), strtoull(argv[5], NULL, 0)) < 0 ||
                    ring_watch(&ring, &scan, memories, n_memories, atof(argv[6])) < 0 || fclose(ring.dump) != 0) {
                        perror("leak-scan: ring");
                        return EXIT_FAILURE;
                }
        }
        if (words_write(&scan.words, argv[2]) < 0) {
                perror(argv[2]);
                return EXIT_FAILURE;
        }
        for (size_t i = 0; i < scan.n; i++)
                if (scan.secrets[i].hits > 0)
                        printf("total %s %" PRIu64 "\n", scan.secrets[i].name, scan.secrets[i].hits);
        for (size_t i = 0; i < n_memories; i++)
                printf("looked %s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", memories[i].name, memories[i].looks,
                       memories[i].changes, memories[i].hits);
        printf("scanned %" PRIu64 "\n", scan.scanned);
        return EXIT_SUCCESS;
}
