/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The list against maps that are made here: whose they are, how large, used by a program or only mapped. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <bpf/bpf.h>
#include <cmocka.h>
#include <linux/filter.h>
#include <sys/mman.h>

#include "map-list.h"
#include "util.h"

#define ID 0x12345678U
#define SIZE 65536

/* Sums up all maps of this name; returns how many there are. */
static int list(int fd, uint32_t uid, struct rs_map_info *ret) {
        struct rs_map_info maps[512];
        int n = map_list_read(fd, maps, ELEMENTSOF(maps)), found = 0;

        assert_true(n >= 0);
        *ret = (struct rs_map_info){};
        for (int i = 0; i < n; i++)
                if (maps[i].id == ID && maps[i].uid == uid) {
                        found++;
                        ret->size += maps[i].size;
                        ret->in_use += maps[i].in_use;
                }
        return found;
}

static int load_program(int map_fd) {
        struct bpf_insn code[] = {
                {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = BPF_REG_1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map_fd},
                {},
                {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
                {.code = BPF_JMP | BPF_EXIT},
        };

        return bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "user", "GPL", code, ELEMENTSOF(code), NULL);
}

/* The kernel takes its time to free what is not used any more. */
static void wait_for(int fd, uint32_t uid, int n, uint32_t in_use) {
        struct rs_map_info sum;

        for (int i = 0; i < 1000; i++) {
                if (list(fd, uid, &sum) == n && sum.in_use == in_use)
                        return;
                usleep(10000);
        }
        fail_msg("%d maps instead of %d, %u in use instead of %u", list(fd, uid, &sum), n, sum.in_use, in_use);
}

static void test_list(void **state) {
        LIBBPF_OPTS(bpf_map_create_opts, mmapable, .map_flags = BPF_F_MMAPABLE);
        /* A uid of nobody's, and of no other run of this. */
        const uint32_t uid = 0xf0000000U + getpid();
        int fd = map_list_open(), ring, counters, program;
        char name[RS_MAP_NAME_SIZE];
        struct rs_map_info sum;
        void *p;

        (void) state;
        assert_true(fd >= 0);
        assert_int_equal(list(fd, uid, &sum), 0);
        rs_map_name(name, 'r', ID, uid);
        ring = bpf_map_create(BPF_MAP_TYPE_RINGBUF, name, 0, 0, SIZE, NULL);
        rs_map_name(name, 'c', ID, uid);
        counters = bpf_map_create(BPF_MAP_TYPE_ARRAY, name, 4, 64, 10, &mmapable);
        assert_true(ring >= 0 && counters >= 0);
        /* Not of ours: another kind, and a shorter name. */
        name[2] = 'x';
        assert_true(bpf_map_create(BPF_MAP_TYPE_ARRAY, name, 4, 64, 1, NULL) >= 0);
        assert_true(bpf_map_create(BPF_MAP_TYPE_ARRAY, "rsr12345678", 4, 64, 1, NULL) >= 0);
        assert_int_equal(list(fd, uid, &sum), 2);
        assert_int_equal(sum.size, SIZE + 3 * 4096 + 640 + 4096);
        assert_int_equal(sum.in_use, 0);

        program = load_program(ring);
        assert_true(program >= 0);
        wait_for(fd, uid, 2, 1);
        /* However many descriptors and mappings there are, it is the program that counts. */
        p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, ring, 4096);
        assert_true(p != MAP_FAILED);
        assert_true(dup(ring) >= 0);
        wait_for(fd, uid, 2, 1);
        close(program);
        wait_for(fd, uid, 2, 0);
        close(counters);
        wait_for(fd, uid, 1, 0);

        /* Room for one would not tell it from more. */
        assert_int_equal(map_list_read(fd, &sum, 1), -E2BIG);
        munmap(p, 4096);
        close(fd);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_list)};

        if (geteuid() != 0) {
                printf("needs root, for the kernel's list of maps\n");
                return getenv("RINGSIDE_MUST_RUN") ? 1 : 77;
        }
        return cmocka_run_group_tests(tests, NULL, NULL);
}
