/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Are there halves of kernel addresses among 32-bit words that somebody was given? One half alone is a number like
 * any other, and of many words some will be in any set by chance; where they stand says nothing, for the other half may
 * be in another field, or left out. So what the kernel's layout is like is compared with what it might have been: sets of
 * the same shape, moved to elsewhere.
 *
 *      leak-halves TEXT MODULES OBJECTS WORDS...
 *
 * TEXT, MODULES: "BEGINNING FIRST STEP N" and then offsets of places from BEGINNING, which is one of FIRST, FIRST + STEP,
 * ... (N of them). MODULES may have no places. OBJECTS: addresses of tasks and what belongs to them. All in hexadecimal.
 * For each file of WORDS, leak-scan's, prints
 *
 *      text HITS MOST SUM      words that are lower halves of places, for this beginning, and the most of them for any
 *                              other, and for all others together
 *      modules HITS MOST SUM   the same, where there are modules
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
#define PLACES_MAX (1u << 26)
#define SHIFTS 16
#define ROUND 4096
/* Where the direct map and the kernel's other areas may be (Documentation/arch/x86/x86_64/mm.rst), below the text. */
#define UPPER_FIRST 0xffff8880u
#define UPPER_LAST 0xfffffeffu

typedef struct Places {
        uint8_t *bits;
        uint32_t size; /* up to the last of them, 0: there are none */
        uint32_t first, step, n_bases, truth;
        uint64_t hits[BASES_MAX];
} Places;

typedef struct Halves {
        Places text, modules;
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

static int read_places(Places *p, const char *path) {
        _cleanup_fclose_ FILE *f = fopen(path, "re");
        uint64_t beginning, first;
        uint32_t place;

        p->bits = calloc(PLACES_MAX / 8, 1);
        if (!f || !p->bits || fscanf(f, "%" SCNx64 " %" SCNx64 " %" SCNx32 " %" SCNx32, &beginning, &first, &p->step,
                                     &p->n_bases) != 4)
                return -1;
        p->first = lower(first);
        if (p->step == 0 || p->n_bases > BASES_MAX || (beginning - first) / p->step >= p->n_bases)
                return -1;
        p->truth = (beginning - first) / p->step;
        while (fscanf(f, "%" SCNx32, &place) == 1)
                if (place < PLACES_MAX) {
                        p->bits[place / 8] |= 1 << place % 8;
                        p->size = MAX(p->size, place + 1);
                }
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

static void places_add_word(Places *p, uint32_t word) {
        if (word < p->first)
                return;
        for (int64_t i = MIN((word - p->first) / p->step, p->n_bases - 1); i >= 0; i--) {
                uint32_t place = word - (p->first + i * p->step);

                if (place >= p->size)
                        break;
                p->hits[i] += p->bits[place / 8] >> place % 8 & 1;
        }
}

static void add_word(Halves *h, uint32_t word) {
        places_add_word(&h->text, word);
        places_add_word(&h->modules, word);
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

        memset(h->text.hits, 0, sizeof(h->text.hits));
        memset(h->modules.hits, 0, sizeof(h->modules.hits));
        memset(h->moved, 0, sizeof(h->moved));
        h->upper_hits = h->upper_like = 0;
        while (f && fread(&word, sizeof(word), 1, f) == 1)
                add_word(h, word);
        print_hits("text", h->text.hits, h->text.n_bases, h->text.truth);
        if (h->modules.size > 0)
                print_hits("modules", h->modules.hits, h->modules.n_bases, h->modules.truth);
        print_hits("objects", h->moved, SHIFTS, 0);
        printf("upper %" PRIu64 " %" PRIu64 " %zu\n", h->upper_hits, h->upper_like, h->n_uppers);
        return f && !ferror(f) ? 0 : -1;
}

int main(int argc, char *argv[]) {
        Halves h = {};

        if (argc < 5)
                return 2;
        if (read_places(&h.text, argv[1]) < 0 || h.text.size == 0 || read_places(&h.modules, argv[2]) < 0 ||
            read_objects(&h, argv[3]) < 0)
                return fprintf(stderr, "leak-halves: no secrets\n"), EXIT_FAILURE;
        for (int i = 4; i < argc; i++)
                if (tell_of_words(&h, argv[i]) < 0)
                        return perror(argv[i]), EXIT_FAILURE;
        return EXIT_SUCCESS;
}
