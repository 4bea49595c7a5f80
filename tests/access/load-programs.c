/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * load-programs OBJECT...: loads every program of BPF objects and prints how many instructions the verifier
 * walked through. Its limit is a million; ours is far below, since another kernel's verifier may walk through
 * several times as many.
 */

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <string.h>
#include <sys/resource.h>

#include "util.h"

#define INSTRUCTIONS_MAX 50000

static void object_closep(struct bpf_object **object) {
        bpf_object__close(*object);
}

/* Returns how many programs failed. */
static int report_program(const struct bpf_program *program) {
        struct bpf_prog_info info = {};
        uint32_t size = sizeof(info);
        bool over;

        if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) < 0) {
                printf("%s: no information: %s\n", bpf_program__name(program), strerror(errno));
                return 1;
        }
        /* 0: a kernel before 5.16 does not tell. */
        over = info.verified_insns > INSTRUCTIONS_MAX;
        printf("%-16s %6u instructions verified%s\n", bpf_program__name(program), info.verified_insns,
               over ? ": too many" : "");
        return over;
}

static int report_object(const char *path) {
        _cleanup_(object_closep) struct bpf_object *object = bpf_object__open_file(path, NULL);
        struct bpf_program *program;
        int failed = 0;

        if (!object || bpf_object__load(object) < 0) {
                printf("%s: does not load: %s\n", path, strerror(errno));
                return 1;
        }
        bpf_object__for_each_program(program, object)
                failed += report_program(program);
        return failed;
}

int main(int argc, char *argv[]) {
        const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
        const char *must_run = getenv("RINGSIDE_MUST_RUN");
        int failed = 0;

        if (geteuid() != 0) {
                printf("loading programs needs root\n");
                return must_run && strcmp(must_run, "1") == 0 ? EXIT_FAILURE : 77;
        }
        /* Before 5.11 maps count as locked memory. */
        (void) setrlimit(RLIMIT_MEMLOCK, &unlimited);
        libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
        for (int i = 1; i < argc; i++)
                failed += report_object(argv[i]);
        return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
