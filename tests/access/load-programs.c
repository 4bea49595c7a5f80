/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * load-programs OBJECT...: loads every program of BPF objects and prints how many instructions the verifier
 * walked through. Its limit is a million; ours is far below, since another kernel's verifier may walk through
 * several times as many.
 */

#include <bpf/bpf.h>
#include <bpf/btf.h>
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

/* Every part of the programs that a session's grant may leave out is to be there: all that is bool is true. */
static void switch_on(struct bpf_object *object) {
        struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata");
        const struct btf *btf = bpf_object__btf(object);
        int id = btf__find_by_name_kind(btf, ".rodata", BTF_KIND_DATASEC);
        const struct btf_type *section = id < 0 ? NULL : btf__type_by_id(btf, id);
        size_t size;
        unsigned char *data = map ? (unsigned char *) bpf_map__initial_value(map, &size) : NULL;

        for (int i = 0; data && section && i < btf_vlen(section); i++) {
                const struct btf_var_secinfo *v = &btf_var_secinfos(section)[i];
                const struct btf_type *type = btf__type_by_id(btf, btf__resolve_type(btf, btf__type_by_id(btf, v->type)->type));

                if (btf_is_int(type) && (btf_int_encoding(type) & BTF_INT_BOOL))
                        data[v->offset] = true;
        }
}

static int report_object(const char *path) {
        _cleanup_(object_closep) struct bpf_object *object = bpf_object__open_file(path, NULL);
        struct bpf_program *program;
        int failed = 0;

        if (object)
                switch_on(object);
        /* Where there are no modules there is nothing to attach it to. */
        program = object ? bpf_object__find_program_by_name(object, "on_module_free") : NULL;
        if (program)
                (void) bpf_program__set_autoload(program, access("/proc/sys/kernel/modprobe", F_OK) == 0);
        if (!object || bpf_object__load(object) < 0) {
                printf("%s: does not load: %s\n", path, strerror(errno));
                return 1;
        }
        bpf_object__for_each_program(program, object)
                if (bpf_program__autoload(program))
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
