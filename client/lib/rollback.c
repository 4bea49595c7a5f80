/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reads a rollback journal as SQLite would play it back, up to the first record that is not whole.
 * Only the first segment counts: our writer never begins a second one, since its cache does not spill.
 */

#include "rollback.h"

#include <endian.h>
#include <string.h>

#include "util.h"

#define PAGE_SIZE_MAX 65536U

static const uint8_t journal_magic[8] = { 0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7 };

struct journal_header {
        uint8_t magic[8];
        uint32_t n_records; /* all of them big-endian; UINT32_MAX: as many as fit in the file */
        uint32_t nonce;
        uint32_t n_pages;
        uint32_t sector_size; /* the records start there */
        uint32_t page_size;
};

/* A record: page number, page, checksum. */
static uint32_t record_checksum(const uint8_t *page, uint32_t page_size, uint32_t nonce) {
        uint32_t sum = nonce;

        for (int64_t i = (int64_t) page_size - 200; i > 0; i -= 200)
                sum += page[i];
        return sum;
}

static uint32_t read_be32(const uint8_t *p) {
        uint32_t v;

        memcpy(&v, p, sizeof(v));
        return be32toh(v);
}

static bool power_of_two(uint32_t v, uint32_t min, uint32_t max) {
        return v >= min && v <= max && (v & (v - 1)) == 0;
}

static int load_records(Rollback *rollback, const struct journal_header *h, uint64_t size) {
        uint32_t page_size = be32toh(h->page_size), sector = be32toh(h->sector_size), n = be32toh(h->n_records);
        uint64_t offset = sector, step = (uint64_t) page_size + 8;
        _cleanup_free_ uint8_t *record = malloc(step);
        int r;

        if (!record)
                return -ENOMEM;

        for (uint32_t i = 0; (n == UINT32_MAX || i < n) && offset + step <= size; i++, offset += step) {
                TableKey key = {};

                if (pread(rollback->fd, record, step, offset) != (ssize_t) step)
                        break;
                key.a = read_be32(record);
                if (key.a == 0 ||
                    read_be32(record + 4 + page_size) != record_checksum(record + 4, page_size, be32toh(h->nonce)))
                        break;
                if (table_get(&rollback->pages, key))
                        continue; /* the first one is the oldest */
                r = table_put(&rollback->pages, key, offset + 4);
                if (r < 0)
                        return r;
        }
        return 0;
}

int rollback_load(Rollback *ret, int fd, uint64_t size) {
        Rollback rollback = { .fd = fd };
        struct journal_header h;
        int r;

        if (pread(fd, &h, sizeof(h), 0) != sizeof(h) || memcmp(h.magic, journal_magic, sizeof(journal_magic)) != 0 ||
            !power_of_two(be32toh(h.page_size), 512, PAGE_SIZE_MAX) ||
            !power_of_two(be32toh(h.sector_size), 32, PAGE_SIZE_MAX)) {
                close_fd(fd);
                *ret = (Rollback){};
                return 0;
        }

        rollback.page_size = be32toh(h.page_size);
        rollback.n_pages = be32toh(h.n_pages);
        rollback.is_unsynced = h.n_records == UINT32_MAX;
        r = load_records(&rollback, &h, size);
        if (r < 0) {
                rollback_done(&rollback);
                return r;
        }
        *ret = rollback;
        return 0;
}

void rollback_done(Rollback *rollback) {
        if (rollback->page_size > 0)
                close_fd(rollback->fd);
        table_done(&rollback->pages);
        *rollback = (Rollback){};
}

int rollback_apply(const Rollback *rollback, void *buffer, size_t n, uint64_t offset) {
        uint64_t end = offset + n, page_size = rollback->page_size;

        /* SQLite reads whole pages, but also the first hundred bytes and single fields of the first. */
        for (uint64_t page = offset / page_size; page * page_size < end; page++) {
                uint64_t from = MAX(offset, page * page_size), to = MIN(end, (page + 1) * page_size);
                uint64_t at = table_get(&rollback->pages, (TableKey){ .a = page + 1 });

                if (at == 0)
                        continue;
                if (pread(rollback->fd, (uint8_t *) buffer + (from - offset), to - from,
                          at + (from - page * page_size)) != (ssize_t) (to - from))
                        return -EIO;
        }
        return 0;
}
