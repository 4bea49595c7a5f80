/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Are there halves of kernel addresses among 32-bit words that somebody was given? One half alone is a number like
 * any other, and of many words some will be in any set by chance; where they stand says nothing, for the other half may
 * be in another field, or left out. So what the kernel's layout is like is compared with what it might have been: sets of
 * the same shape, moved to elsewhere.
 *
 *      leak-halves PLACES STEXT FIRST STEP N OBJECTS WORDS...
 *
 * PLACES: offsets into the core text; STEXT: where it begins, which is one of FIRST, FIRST + STEP, ... (N of them).
 * OBJECTS: addresses of tasks and what belongs to them. All in hexadecimal. For each file of WORDS, leak-scan's, prints
 *
 *      text HITS MOST SUM      words that are lower halves of places, for this beginning, and the most of them for any
 *                              other, and for all others together
 *      objects HITS MOST SUM   words that are the lower half of an object, and of the same set, moved; without those
 *                              that begin a page, as stacks do: offsets in files are such numbers as well
 *      upper HITS LIKE N       words that are the upper half of one; words that might be, were the kernel elsewhere; how
 *                              many upper halves there are
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "util.h"

#define OBJECTS_MAX 65536
#define BASES_MAX 512
#define SHIFTS 16
#define ROUND 4096
/* Where the direct map and the kernel's other areas may be (Documentation/arch/x86/x86_64/mm.rst), below the text. */
#define UPPER_FIRST 0xffff8880u
#define UPPER_LAST 0xfffffeffu

typedef struct Halves {
        uint8_t *places;
        uint32_t size; /* of the text */
        uint32_t first, step, n_bases, truth;
        uint64_t text[BASES_MAX];

        uint64_t *objects; /* sorted by lower half */
        size_t n_objects;
        uint32_t uppers[64];
        size_t n_uppers;
        uint64_t moved[SHIFTS];
        uint64_t upper_hits, upper_like;
} Halves;

static uint32_t lower(uint64_t address) {
        return address;
}

static int compare_lower(const void *a, const void *b) {
        uint32_t x = lower(*(const uint64_t *) a), y = lower(*(const uint64_t *) b);

        return (x > y) - (x < y);
}

static bool has_upper(const Halves *h, uint32_t word) {
        for (size_t i = 0; i < h->n_uppers; i++)
                if (h->uppers[i] == word)
                        return true;
        return false;
}

static int read_places(Halves *h, const char *path) {
        _cleanup_fclose_ FILE *f = fopen(path, "re");
        uint32_t place;

        h->size = 1u << 26;
        h->places = calloc(h->size / 8, 1);
        if (!f || !h->places)
                return -1;
        while (fscanf(f, "%" SCNx32, &place) == 1)
                if (place < h->size)
                        h->places[place / 8] |= 1 << place % 8;
        return feof(f) ? 0 : -1;
}

static int read_objects(Halves *h, const char *path) {
        _cleanup_fclose_ FILE *f = fopen(path, "re");

        h->objects = calloc(OBJECTS_MAX, sizeof(*h->objects));
        if (!f || !h->objects)
                return -1;
        while (h->n_objects < OBJECTS_MAX && fscanf(f, "%" SCNx64, &h->objects[h->n_objects]) == 1) {
                uint32_t upper = h->objects[h->n_objects] >> 32;

                h->n_objects += h->objects[h->n_objects] % ROUND != 0;
                if (!has_upper(h, upper)) {
                        if (h->n_uppers == ELEMENTSOF(h->uppers))
                                return -1;
                        h->uppers[h->n_uppers++] = upper;
                }
        }
        qsort(h->objects, h->n_objects, sizeof(*h->objects), compare_lower);
        return feof(f) && h->n_objects > 0 ? 0 : -1;
}

/*
 * Which object a word would be the lower half of, were all moved for the i-th time: by a little, and as aligned as they
 * are, for small numbers and round ones are not like any others.
 */
static uint64_t moved_back(uint32_t word, uint32_t i) {
        return lower(word - i * 37 * 2 * (word & -word));
}

static void add_word(Halves *h, uint32_t word) {
        if (word >= h->first)
                for (int64_t i = MIN((word - h->first) / h->step, h->n_bases - 1); i >= 0; i--) {
                        uint32_t place = word - (h->first + i * h->step);

                        if (place >= h->size)
                                break;
                        h->text[i] += h->places[place / 8] >> place % 8 & 1;
                }
        for (uint32_t i = 0; i < SHIFTS; i++) {
                uint64_t wanted = moved_back(word, i);

                h->moved[i] += bsearch(&wanted, h->objects, h->n_objects, sizeof(*h->objects), compare_lower) != NULL;
        }
        h->upper_like += word >= UPPER_FIRST && word <= UPPER_LAST;
        h->upper_hits += has_upper(h, word);
}

static void print_hits(const char *what, const uint64_t *hits, size_t n, size_t truth) {
        uint64_t most = 0, sum = 0;

        for (size_t i = 0; i < n; i++)
                if (i != truth) {
                        most = MAX(most, hits[i]);
                        sum += hits[i];
                }
        printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", what, hits[truth], most, sum);
}

static int tell_of_words(Halves *h, const char *path) {
        _cleanup_fclose_ FILE *f = fopen(path, "re");
        uint32_t word;

        memset(h->text, 0, sizeof(h->text));
        memset(h->moved, 0, sizeof(h->moved));
        h->upper_hits = h->upper_like = 0;
        while (f && fread(&word, sizeof(word), 1, f) == 1)
                add_word(h, word);
        print_hits("text", h->text, h->n_bases, h->truth);
        print_hits("objects", h->moved, SHIFTS, 0);
        printf("upper %" PRIu64 " %" PRIu64 " %zu\n", h->upper_hits, h->upper_like, h->n_uppers);
        return f && !ferror(f) ? 0 : -1;
}

int main(int argc, char *argv[]) {
        Halves h = {};

        if (argc < 8)
                return 2;
        h.first = lower(strtoull(argv[3], NULL, 16));
        h.step = strtoul(argv[4], NULL, 16);
        h.n_bases = MIN(strtoul(argv[5], NULL, 16), BASES_MAX);
        h.truth = (lower(strtoull(argv[2], NULL, 16)) - h.first) / h.step;
        if (h.truth >= h.n_bases || read_places(&h, argv[1]) < 0 || read_objects(&h, argv[6]) < 0)
                return fprintf(stderr, "leak-halves: no secrets\n"), EXIT_FAILURE;
        for (int i = 7; i < argc; i++)
                if (tell_of_words(&h, argv[i]) < 0)
                        return perror(argv[i]), EXIT_FAILURE;
        return EXIT_SUCCESS;
}
