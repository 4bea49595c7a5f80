/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Runs code in a file that is renamed all the time, from a short name to a long one and back, at ever new addresses:
 * whoever puts paths together in an interrupt meets names and lengths that do not belong together. For tests/leak.
 *
 *      leak-rename DIRECTORY       which it makes
 */

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "util.h"

#define PAGE 4096
#define LONG_NAME 240
#define PLACES 4000000

static char short_path[512], long_path[512];

static void *rename_on(_unused_ void *userdata) {
        while (rename(short_path, long_path) == 0 && rename(long_path, short_path) == 0)
                ;
        _exit(EXIT_FAILURE);
}

/* A loop of 16384 turns, and back. */
static void write_code(uint8_t *code) {
#if defined(__x86_64__)
        static const uint8_t loop[] = {0xb9, 0x00, 0x40, 0x00, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
#elif defined(__aarch64__)
        static const uint32_t loop[] = {0x52880000, 0x71000400, 0x54ffffe1, 0xd65f03c0};
#endif

        memcpy(code, loop, sizeof(loop));
}

int main(int argc, char *argv[]) {
        uint8_t code[PAGE] = {};
        pthread_t thread;
        int fd, n;

        if (argc != 2 || mkdir(argv[1], 0700) < 0)
                return EXIT_FAILURE;
        (void) snprintf(short_path, sizeof(short_path), "%s/a", argv[1]);
        n = snprintf(long_path, sizeof(long_path), "%s/", argv[1]);
        if (n < 0 || (size_t) n + LONG_NAME >= sizeof(long_path))
                return EXIT_FAILURE;
        memset(long_path + n, 'L', LONG_NAME);
        write_code(code);
        fd = open(short_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
        if (fd < 0 || write(fd, code, sizeof(code)) != sizeof(code) ||
            pthread_create(&thread, NULL, rename_on, NULL) != 0)
                return EXIT_FAILURE;
        for (uint64_t i = 0;; i++) {
                /* Never where one was a moment ago: each is a mapping that nobody was told of. */
                void *at = (void *) (uintptr_t) (0x100000000000 + i % PLACES * PAGE * 257);
                void *p = mmap(at, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

                if (p == MAP_FAILED)
                        return EXIT_FAILURE;
                for (int turn = 0; turn < 2; turn++)
                        ((void (*)(void)) p)();
                munmap(p, PAGE);
        }
}
