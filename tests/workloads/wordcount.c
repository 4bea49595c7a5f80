/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A small real program to try Ringside on: counts the words of a file into a hash table, sorts them by how
 * often they occur, and prints the ten first; as many rounds as asked for, so that it takes a while.
 */

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256 /* few, so that chains are long and looking them up costs */

typedef struct Word {
        struct Word *next;
        unsigned long count;
        char text[64];
} Word;

typedef struct Table {
        Word *buckets[BUCKETS];
        size_t size;
} Table;

static uint32_t word_hash(const char *text) {
        uint32_t h = 2166136261u;

        for (; *text != '\0'; text++)
                h = (h ^ (unsigned char) *text) * 16777619u;
        return h % BUCKETS;
}

static int table_add(Table *t, const char *text) {
        Word **bucket = &t->buckets[word_hash(text)], *w = *bucket;

        while (w && strcmp(w->text, text) != 0)
                w = w->next;
        if (!w) {
                w = calloc(1, sizeof(*w));
                if (!w)
                        return -1;
                snprintf(w->text, sizeof(w->text), "%s", text);
                w->next = *bucket;
                *bucket = w;
                t->size++;
        }
        w->count++;
        return 0;
}

static int table_read(Table *t, FILE *f) {
        char text[64];
        size_t length = 0;
        int c;

        do {
                c = getc_unlocked(f);
                if (c != EOF && isalpha(c) && length < sizeof(text) - 1) {
                        text[length++] = (char) tolower(c);
                } else if (length > 0) {
                        text[length] = '\0';
                        length = 0;
                        if (table_add(t, text) < 0)
                                return -1;
                }
        } while (c != EOF);
        return 0;
}

static int word_compare(const void *a, const void *b) {
        const Word *x = *(const Word *const *) a, *y = *(const Word *const *) b;

        if (x->count != y->count)
                return x->count < y->count ? 1 : -1;
        return strcmp(x->text, y->text);
}

static Word **table_sort(const Table *t) {
        Word **sorted = calloc(t->size + 1, sizeof(*sorted));
        size_t n = 0;

        if (!sorted)
                return NULL;
        for (size_t i = 0; i < BUCKETS; i++)
                for (Word *w = t->buckets[i]; w; w = w->next)
                        sorted[n++] = w;
        qsort(sorted, n, sizeof(*sorted), word_compare);
        return sorted;
}

static void table_clear(Table *t) {
        for (size_t i = 0; i < BUCKETS; i++)
                for (Word *w = t->buckets[i], *next; w; w = next) {
                        next = w->next;
                        free(w);
                }
        *t = (Table) {};
}

static int count_file(const char *path, int print) {
        Table table = {};
        Word **sorted = NULL;
        FILE *f = fopen(path, "re");
        int r = -1;

        if (!f)
                return -1;
        if (table_read(&table, f) == 0)
                sorted = table_sort(&table);
        if (sorted) {
                for (size_t i = 0; print && i < 10 && sorted[i]; i++)
                        printf("%8lu %s\n", sorted[i]->count, sorted[i]->text);
                r = 0;
        }
        free(sorted);
        table_clear(&table);
        fclose(f);
        return r;
}

int main(int argc, char **argv) {
        long rounds = argc == 3 ? strtol(argv[2], NULL, 10) : 0;

        if (rounds < 1) {
                fprintf(stderr, "usage: %s FILE ROUNDS\n", argv[0]);
                return 2;
        }
        for (; rounds > 0; rounds--)
                if (count_file(argv[1], rounds == 1) < 0) {
                        perror(argv[1]);
                        return 1;
                }
        return 0;
}
