/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Makes jitdump files, for tests. A Dump is filled from its header on; there is room for what tests write. */

#include <stdint.h>
#include <string.h>

typedef struct TestDump {
        uint8_t data[64 << 10];
        size_t size;
} TestDump;

static inline void dump_put(TestDump *dump, const void *bytes, size_t n) {
        memcpy(dump->data + dump->size, bytes, n);
        dump->size += n;
}

static inline void dump_u32(TestDump *dump, uint32_t value) {
        dump_put(dump, &value, sizeof(value));
}

static inline void dump_u64(TestDump *dump, uint64_t value) {
        dump_put(dump, &value, sizeof(value));
}

static inline void dump_header(TestDump *dump, uint64_t flags) {
        dump->size = 0;
        dump_u32(dump, 0x4a695444);
        dump_u32(dump, 1);
        dump_u32(dump, 40);
        dump_u32(dump, 62);
        dump_u32(dump, 0);
        dump_u32(dump, 7);
        dump_u64(dump, 0);
        dump_u64(dump, flags);
}

static inline void dump_prefix(TestDump *dump, uint32_t id, size_t size, uint64_t time) {
        dump_u32(dump, id);
        dump_u32(dump, (uint32_t) (16 + size));
        dump_u64(dump, time);
}

/* With as many bytes of code as it says. */
static inline void dump_load(TestDump *dump, uint64_t time, uint64_t address, size_t size, uint64_t index, const char *name) {
        dump_prefix(dump, 0, 40 + strlen(name) + 1 + size, time);
        dump_u32(dump, 7);
        dump_u32(dump, 7);
        dump_u64(dump, address);
        dump_u64(dump, address);
        dump_u64(dump, size);
        dump_u64(dump, index);
        dump_put(dump, name, strlen(name) + 1);
        memset(dump->data + dump->size, 0xcc, size);
        dump->size += size;
}

static inline void dump_move(TestDump *dump, uint64_t time, uint64_t from, uint64_t to, uint64_t size, uint64_t index) {
        dump_prefix(dump, 1, 48, time);
        dump_u32(dump, 7);
        dump_u32(dump, 7);
        dump_u64(dump, to);
        dump_u64(dump, from);
        dump_u64(dump, to);
        dump_u64(dump, size);
        dump_u64(dump, index);
}

typedef struct TestLine {
        uint64_t address;
        int32_t line;
        const char *file;
} TestLine;

static inline void dump_debug_info(TestDump *dump, uint64_t address, const TestLine *lines, size_t n) {
        size_t start = dump->size;
        uint32_t size;

        dump_prefix(dump, 2, 0, 0);
        dump_u64(dump, address);
        dump_u64(dump, n);
        for (size_t i = 0; i < n; i++) {
                dump_u64(dump, lines[i].address);
                dump_u32(dump, (uint32_t) lines[i].line);
                dump_u32(dump, 1);
                dump_put(dump, lines[i].file, strlen(lines[i].file) + 1);
        }
        size = (uint32_t) (dump->size - start);
        memcpy(dump->data + start + 4, &size, sizeof(size));
}
