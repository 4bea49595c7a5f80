/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A JIT that puts one function where another one was, and moves a third, many times a second. Half of the CPU seconds
 * are in made_half, a third in made_third, at the same address, and a sixth in made_sixth, at one of two others. Each is
 * called by a function of its own, which tells which one it really was. It writes so into jit-PID.dump here, as it goes,
 * or with "late", only now and then.
 *
 * With "forked", a child goes on with made_half, which takes CPU seconds of its own, while made_third takes its place here.
 */

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "made.h"
#include "spin.h"

#define PAGE 4096

static FILE *dump;
static bool late;

static void put(const void *bytes, size_t size) {
        fwrite(bytes, 1, size, dump);
}

static void put_u32(uint32_t value) {
        put(&value, sizeof(value));
}

static void put_u64(uint64_t value) {
        put(&value, sizeof(value));
}

/* What is written to the file at once is there when the code runs. */
static void end_record(void) {
        if (!late)
                fflush(dump);
}

static void put_prefix(uint32_t id, uint32_t size) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        put_u32(id);
        put_u32(16 + size);
        put_u64((uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec);
}

static void put_ids(void) {
        put_u32((uint32_t) getpid());
        put_u32((uint32_t) getpid());
}

/* All of it is at one line of a source of that name: as many as the name has letters. */
static void put_line(const char *code, const char *name) {
        size_t len = strlen(name) + 1;

        put_prefix(2, (uint32_t) (32 + len));
        put_u64((uintptr_t) code);
        put_u64(1);
        put_u64((uintptr_t) code);
        put_u32((uint32_t) strlen(name));
        put_u32(0);
        put(name, len);
}

static void put_load(const char *code, uint64_t index, const char *name) {
        size_t size = (size_t) (made_end - made_start);

        put_line(code, name);
        put_prefix(0, (uint32_t) (40 + strlen(name) + 1 + size));
        put_ids();
        put_u64((uintptr_t) code);
        put_u64((uintptr_t) code);
        put_u64(size);
        put_u64(index);
        put(name, strlen(name) + 1);
        put(made_start, size);
        end_record();
}

static void put_move(const char *from, const char *to, uint64_t index) {
        put_prefix(1, 48);
        put_ids();
        put_u64((uintptr_t) to);
        put_u64((uintptr_t) from);
        put_u64((uintptr_t) to);
        put_u64((uint64_t) (made_end - made_start));
        put_u64(index);
        end_record();
}

/* With the page by which it is found. */
static int open_dump(void) {
        char path[64];
        int fd;

        snprintf(path, sizeof(path), "jit-%d.dump", (int) getpid());
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
                return -1;
        dump = fdopen(fd, "w");
        if (!dump)
                return -1;
        put_u32(0x4a695444);
        put_u32(1);
        put_u32(40);
        put_u32(0);
        put_u32(0);
        put_u32((uint32_t) getpid());
        put_u64(0);
        put_u64(0);
        end_record();
        return 0;
}

static char *make_code(void) {
        char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (code == MAP_FAILED)
                return NULL;
        for (size_t i = 0; i < 3; i++)
                memcpy(code + i * (PAGE / 4), made_start, (size_t) (made_end - made_start));
        __builtin___clear_cache(code, code + PAGE);
        return code;
}

static NOINLINE uint64_t calls_half(const char *code, uint64_t rounds) {
        return ((MadeFunction *) (uintptr_t) code)(rounds) + 1;
}

static NOINLINE uint64_t calls_third(const char *code, uint64_t rounds) {
        return ((MadeFunction *) (uintptr_t) code)(rounds) + 2;
}

static NOINLINE uint64_t calls_sixth(const char *code, uint64_t rounds) {
        return ((MadeFunction *) (uintptr_t) code)(rounds) + 3;
}

static int fork_on(const char *code, double seconds) {
        uint64_t x = 1;
        int status;
        pid_t pid;

        put_load(code, 1, "made_half");
        pid = fork();
        if (pid == 0) {
                while (spin_cpu_seconds() < seconds)
                        x += calls_half(code, SPIN_UNIT);
                _exit(spin_end(x)); /* what of the dump is in the buffer is the parent's */
        }
        put_load(code, 2, "made_third");
        while (pid > 0 && spin_cpu_seconds() < seconds)
                x += calls_third(code, SPIN_UNIT);
        fclose(dump);
        return pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0 ? 1 : spin_end(x);
}

int main(int argc, char **argv) {
        static uint64_t (*const callers[])(const char *code, uint64_t rounds) = { calls_half, calls_third, calls_sixth };
        static const double weights[] = { 3, 2, 1 };
        double seconds = spin_seconds(2, argv), spent[3] = {};
        uint64_t x = 1, random = 1, index = 1;
        char *code = make_code(), *moving;

        late = argc > 2 && strcmp(argv[2], "late") == 0;
        if (!code || open_dump() < 0) {
                perror("replaced");
                return 1;
        }
        if (argc > 2 && strcmp(argv[2], "forked") == 0)
                return fork_on(code, seconds);
        moving = code + PAGE / 4;
        put_load(moving, 0, "made_sixth");
        while (spin_cpu_seconds() < seconds) {
                int next = 0;
                double before = spin_cpu_seconds(), until;
                char *to = code;

                for (int i = 1; i < 3; i++)
                        if (spent[i] / weights[i] < spent[next] / weights[next])
                                next = i;
                /* 5 to 37 ms, by a generator of random numbers. */
                until = before + 0.005 + (double) ((random = random * 6364136223846793005u + 1442695040888963407u) >> 59) / 1000;
                if (next == 2) {
                        to = moving == code + PAGE / 4 ? code + PAGE / 2 : code + PAGE / 4;
                        put_move(moving, to, 0);
                        moving = to;
                } else
                        put_load(to, index++, next == 0 ? "made_half" : "made_third");
                while (spin_cpu_seconds() < until)
                        x += callers[next](to, SPIN_UNIT * (1 + (x & 15)));
                spent[next] += spin_cpu_seconds() - before;
        }
        fclose(dump);
        return spin_end(x);
}
